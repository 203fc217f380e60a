-- Runs of which rows may still come, or never came: they did not end, or an ingest of them has not. Why, in
-- words. Name the run.
CREATE VIEW unended_run AS
SELECT
  r.id AS run_id,
  CASE WHEN r.status IN ('running', 'failed') THEN r.name || ' did not end (status ' || r.status || ')'
    ELSE 'an ingest of ' || r.name || ' has not ended' END AS why
FROM run r
WHERE r.status IN ('running', 'failed') OR EXISTS (SELECT 1 FROM ingest_run i WHERE i.run_id = r.id);
