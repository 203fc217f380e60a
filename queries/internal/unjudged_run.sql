-- Runs whose tally is not kept.
CREATE VIEW unjudged_run AS
SELECT r.id AS run_id, r.name AS run
FROM run r
WHERE NOT EXISTS (SELECT 1 FROM kept_tally k WHERE k.run_id = r.id);
