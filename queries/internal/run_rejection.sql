-- What was not taken of a run's files: a row per rejected line or file, or more. A file that gave no
-- source counts for the run that its path names and for
-- all below it, an archive also for the runs that have something from it.
CREATE VIEW run_rejection AS
SELECT s.run_id AS run_id, e.id AS error_id
FROM source s
JOIN ingest_error e ON e.source_id = s.id AND e.severity = 'error'
UNION ALL
SELECT r.id, e.id
FROM run r
JOIN ingest_error e ON e.severity = 'error' AND e.about IS NOT NULL
  AND (e.about = r.name OR r.name > e.about || '/' AND r.name < e.about || '0')
UNION ALL
SELECT s.run_id, e.id
FROM source s
JOIN source_location l ON l.source_id = s.id AND instr(l.path, '!') > 0
JOIN ingest_error e ON e.file = substr(l.path, 1, instr(l.path, '!') - 1) AND e.line = 0
  AND e.source_id IS NULL AND e.severity = 'error';
