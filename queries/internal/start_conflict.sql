-- What the run_start lines of a run say of it that cannot be true of one run: two values of what a run has
-- one of. Rows behind the one are not of the run that the other began. A leg's own name is no mode.
CREATE VIEW start_conflict AS
SELECT a.run_id AS run_id, a.dim AS dim, min(a.value) AS value, max(a.value) AS other
FROM run_event e
JOIN attribute a ON a.run_id = e.run_id AND a.source_id = e.source_id
WHERE e.kind = 'start'
  AND a.dim IN ('run', 'experiment', 'date', 'commit', 'mode', 'dtype', 'seed', 'backend', 'model', 'model_root',
                'model_sha256')
  AND a.value NOT IN ('prefill', 'decode')
GROUP BY a.run_id, a.dim
HAVING min(a.value) < max(a.value);
