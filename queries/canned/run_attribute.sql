-- What every source says about a run, nearest and most believed first; the first of a dim wins.
-- Attributes of the directory levels above a run hold for it too.
-- :run a run
SELECT r.name AS run, a.dim, a.value,
       row_number() OVER believed = 1 AS wins,
       max(a.value) OVER dims <> min(a.value) OVER dims AS conflict,
       CASE a.rank WHEN 0 THEN coalesce((SELECT 'engine' FROM source e WHERE e.id = a.source_id AND e.shape = 'engine'), 'path')
                   WHEN 1 THEN 'perf' WHEN 2 THEN 'metadata' WHEN 3 THEN 'summary'
                   ELSE 'document' END AS origin,
       nullif(a.leg, '') AS leg, l.name AS said_of,
       (SELECT min(path) FROM source_location s WHERE s.source_id = a.source_id) AS source_file
FROM run r
JOIN run l ON l.id = r.id OR (l.name < r.name AND instr(r.name, l.name || '/') = 1)
JOIN attribute a ON a.run_id = l.id
WHERE r.name = :run
WINDOW believed AS (PARTITION BY a.dim ORDER BY a.rank, length(l.name) DESC, a.value, a.id),
       dims AS (PARTITION BY a.dim)
ORDER BY a.dim, a.rank, length(l.name) DESC, a.value, a.id;
