-- One trace point across runs: how its pairs fared, run by run in order of date.
-- :tensor a trace point, by any of its names
-- :layer  () a layer; all of them without
-- :experiment () an experiment; all of them without
SELECT r.date, r.commit_sha, r.experiment, r.mode, r.dtype, p.run, p.layer,
       count(*) AS pairs, sum(p.status = 'MATCH') AS match,
       sum((SELECT s.fails FROM status s WHERE s.name = p.status)) AS fail, max(p.rel_l2) AS max_rel_l2
FROM run r
JOIN pair p ON p.run_id = r.id
WHERE p.tensor_id = (SELECT tensor_id FROM tensor_name WHERE name = :tensor)
  AND (p.layer = :layer OR :layer IS NULL) AND (r.experiment = :experiment OR :experiment IS NULL)
  AND p.status NOT IN ('MISSING', 'DECODE_ONLY')
GROUP BY r.id, p.run, p.layer
ORDER BY r.date, r.id, p.layer < 0, p.layer;
