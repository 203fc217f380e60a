-- Runs of which the verdict that the gate goes by has to be worked out: it is not kept, or a waiver is in force.
CREATE VIEW ungated_run AS
SELECT r.id AS run_id, r.name AS run
FROM run r
WHERE CASE WHEN EXISTS (SELECT 1 FROM kept_verdict k WHERE k.run_id = r.id)
  THEN EXISTS (SELECT 1 FROM run_waiver w WHERE w.run_id = r.id) ELSE 1 END;
