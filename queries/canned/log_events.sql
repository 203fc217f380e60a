-- Tagged lines of run logs; without a tag, how many of each there are.
-- :run () a run; all of them without
-- :tag () a tag, for example ROPE_DIAG
SELECT r.name AS run, e.tag, nullif(e.prompt, '') AS prompt, e.step, 1 AS events, e.text,
       (SELECT min(path) FROM source_location l WHERE l.source_id = e.source_id) AS source_file,
       e.line AS source_line
FROM run r
JOIN log_event e ON e.run_id = r.id AND e.tag = :tag
WHERE r.name = :run OR :run IS NULL
UNION ALL
SELECT r.name, e.tag, nullif(e.prompt, ''), NULL, count(*), NULL,
       (SELECT min(path) FROM source_location l WHERE l.source_id = e.source_id), NULL
FROM run r
JOIN log_event e ON e.run_id = r.id
WHERE :tag IS NULL AND (r.name = :run OR :run IS NULL)
GROUP BY r.id, e.tag, e.prompt, e.source_id
ORDER BY 1, 2, 7, 8;
