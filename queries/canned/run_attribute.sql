-- What every source says about a run, most believed first, then nearest; the first of a dim wins.
-- Attributes of the directory levels above a run hold for it too.
-- :run a run
SELECT a.run, a.dim, a.value, a.believed = 1 AS wins,
       max(a.value) OVER dims <> min(a.value) OVER dims AS conflict,
       CASE a.rank WHEN 0 THEN coalesce((SELECT 'engine' FROM source e WHERE e.id = a.source_id AND e.shape = 'engine'), 'path')
                   WHEN 1 THEN 'perf' WHEN 2 THEN 'metadata' WHEN 3 THEN 'summary'
                   ELSE 'document' END AS origin,
       nullif(a.leg, '') AS leg, a.said_of,
       (SELECT min(path) FROM source_location s WHERE s.source_id = a.source_id) AS source_file
FROM stated_attribute a
WHERE a.run = :run
WINDOW dims AS (PARTITION BY a.dim)
ORDER BY a.dim, a.believed;
