-- Every content that was ingested: its run, shape, rows, and all places where it was found.
-- :run () a run; all of them without
SELECT r.name AS run, nullif(s.leg, '') AS leg, nullif(s.prompt, '') AS prompt, s.shape, s.lines,
       s.rows AS trace_rows, s.duplicates, s.conflicts, s.bytes,
       (SELECT count(*) FROM ingest_error e WHERE e.source_id = s.id) AS findings,
       (SELECT group_concat(path, '; ') FROM source_location l WHERE l.source_id = s.id) AS files,
       s.sha256
FROM source s
JOIN run r ON r.id = s.run_id
WHERE r.name = :run OR :run IS NULL
ORDER BY r.id, s.id;
