-- Measured numbers of runs: times, throughput, differences, as their files state them.
-- :run  () a run; all of them without
-- :name () a metric, or what its name begins with
SELECT r.name AS run, r.date, r.commit_sha, nullif(m.leg, '') AS leg, nullif(m.prompt, '') AS prompt,
       m.name, m.value, m.text,
       (SELECT min(path) FROM source_location l WHERE l.source_id = m.source_id) AS source_file
FROM run r
JOIN run_metric m ON m.run_id = r.id
WHERE (r.name = :run OR :run IS NULL) AND (instr(m.name, :name) = 1 OR :name IS NULL)
ORDER BY r.id, m.name, m.leg, m.prompt, m.id;
