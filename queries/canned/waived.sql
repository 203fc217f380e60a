-- Waivers that are in force for a run, and how many of its differences each of them waives.
-- :run a run
SELECT w.waiver_id, w.tensor, w.layer, count(*) AS pairs, sum(s.class = 'DIVERGENT') AS divergent,
       w.until, w.reason, w.created_by
FROM run_waiver w
CROSS JOIN comparison_graded s ON s.run_id = w.run_id AND s.other_run_id = w.run_id
  AND s.key_tensor_id = w.tensor_id AND (w.layer IS NULL OR s.key_layer = w.layer)
WHERE w.run_id = (SELECT id FROM run WHERE name = :run) AND s.status = 'DRIFT'
GROUP BY w.waiver_id
ORDER BY w.waiver_id;
