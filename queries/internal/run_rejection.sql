-- How many lines and files of a run were not taken, and what its run_start lines contradict each other in. A
-- file that gave no source counts for the run that its path names and for all below it, an archive also for
-- the runs that have something from it.
CREATE VIEW run_rejection AS
SELECT
  c.run_id AS run_id, c.rejected AS rejected,
  -- the most frequent reason; of files without source, that of the first
  CASE WHEN c.rejected > 0 THEN coalesce(
    (SELECT e.reason FROM source s JOIN ingest_error e ON e.source_id = s.id AND e.severity = 'error'
     WHERE s.run_id = c.run_id GROUP BY e.reason ORDER BY count(*) DESC, e.reason LIMIT 1),
    (SELECT e.reason FROM ingest_error e
     WHERE e.severity = 'error' AND e.about <= c.run
       AND (e.about = c.run OR c.run > e.about || '/' AND c.run < e.about || '0')
     ORDER BY +e.file, e.reason LIMIT 1),  -- by what it is about, not through all files in order
    (SELECT e.reason
     FROM source s
     JOIN source_location l ON l.source_id = s.id AND instr(l.path, '!') > 0
     JOIN ingest_error e ON e.file = substr(l.path, 1, instr(l.path, '!') - 1) AND e.line = 0
       AND e.source_id IS NULL AND e.severity = 'error'
     WHERE s.run_id = c.run_id ORDER BY e.file, e.reason LIMIT 1),
    (SELECT 'run_start lines of several runs: ' || v.dim || ' ' || min(v.value) || ' and ' || max(v.value)
     FROM start_value v WHERE v.run_id = c.run_id
     GROUP BY v.dim HAVING min(v.value) < max(v.value) ORDER BY v.dim LIMIT 1)) END AS why
FROM (
  SELECT
    r.id AS run_id, r.name AS run,
    -- asked of a run several times, so nothing is looked through for a file without errors
    CASE WHEN EXISTS (SELECT 1 FROM ingest_error) THEN
      (SELECT count(*) FROM source s JOIN ingest_error e ON e.source_id = s.id AND e.severity = 'error'
       WHERE s.run_id = r.id)
        + (SELECT count(*) FROM ingest_error e
           WHERE e.severity = 'error' AND e.about <= r.name
             AND (e.about = r.name OR r.name > e.about || '/' AND r.name < e.about || '0'))
        -- counted where there are any: DISTINCT takes a table, which costs more than all else here
        + CASE WHEN EXISTS (
            SELECT 1
            FROM source s
            JOIN source_location l ON l.source_id = s.id AND instr(l.path, '!') > 0
            JOIN ingest_error e ON e.file = substr(l.path, 1, instr(l.path, '!') - 1) AND e.line = 0
              AND e.source_id IS NULL AND e.severity = 'error'
            WHERE s.run_id = r.id)
          THEN (
            SELECT count(DISTINCT e.id)
            FROM source s
            JOIN source_location l ON l.source_id = s.id AND instr(l.path, '!') > 0
            JOIN ingest_error e ON e.file = substr(l.path, 1, instr(l.path, '!') - 1) AND e.line = 0
              AND e.source_id IS NULL AND e.severity = 'error'
            WHERE s.run_id = r.id
              AND (e.about = r.name OR r.name > e.about || '/' AND r.name < e.about || '0') IS NOT TRUE)
          ELSE 0 END
      ELSE 0 END
      + CASE WHEN EXISTS (SELECT 1 FROM run_event e WHERE e.run_id = r.id AND e.kind = 'start') AND EXISTS (
          SELECT 1 FROM attribute a CROSS JOIN attribute b ON b.run_id = a.run_id AND b.dim = a.dim AND b.value > a.value
          WHERE a.run_id = r.id)  -- the same, whatever said them
        THEN (SELECT count(*) FROM (
          SELECT 1 FROM start_value v WHERE v.run_id = r.id GROUP BY v.dim HAVING min(v.value) < max(v.value)))
        ELSE 0 END AS rejected
  FROM run r) c;
