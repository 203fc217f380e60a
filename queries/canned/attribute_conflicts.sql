-- Attributes of which the sources of one run and leg say different things.
-- :run () a run; all of them without
SELECT r.name AS run, a.dim, nullif(a.leg, '') AS leg, count(DISTINCT a.value) AS different,
       group_concat(a.value || ' (' || ifnull((SELECT min(path) FROM source_location s
         WHERE s.source_id = a.source_id), 'path') || ')', '; ') AS said
FROM run r
JOIN attribute a ON a.run_id = r.id
WHERE r.name = :run OR :run IS NULL
GROUP BY r.id, a.dim, a.leg
HAVING count(DISTINCT a.value) > 1
ORDER BY r.id, a.dim, a.leg;
