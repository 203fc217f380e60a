-- What the run_start lines of a run say of it, of what a run has one of: two values of one dim cannot be true of
-- one run, and rows behind the one line are not of the run that the other began. A leg's own name is no mode.
-- Name the run. (No row per contradiction: SQLite would look for those of all runs, run by run.)
CREATE VIEW start_value AS
SELECT a.run_id AS run_id, a.dim AS dim, a.value AS value
FROM run_event e
JOIN attribute a ON a.run_id = e.run_id AND a.source_id = e.source_id
WHERE e.kind = 'start'
  AND a.dim IN ('run', 'experiment', 'date', 'commit', 'mode', 'dtype', 'seed', 'backend', 'model', 'model_root',
                'model_sha256')
  AND a.value NOT IN ('prefill', 'decode');
