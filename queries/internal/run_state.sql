-- Per run, what keeps rows that agree from passing. unended: rows of it may still come, or never came, for it or
-- an ingest of its files has not ended; why in words. rejected: lines and files that were not taken, and what its
-- run_start lines contradict each other in; rejected_why: the most frequent reason (of files without source, that
-- of the first). A file that gave no source counts for the run that its path names and for all below it, an
-- archive also for the runs that have something from it. told_failing: a report's table or a known key says so.
CREATE VIEW run_state AS
SELECT
  c.run_id AS run_id, c.unended AS unended, c.rejected AS rejected, c.told_failing AS told_failing,
  CASE WHEN c.unended THEN CASE WHEN c.status IN ('running', 'failed') THEN c.run || ' did not end (status ' || c.status || ')'
    ELSE 'an ingest of ' || c.run || ' has not ended' END END AS unended_why,
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
    (SELECT 'run_start lines of several runs: ' || a.dim || ' ' || min(a.value) || ' and ' || max(a.value)
     FROM run_event e JOIN attribute a ON a.run_id = e.run_id AND a.source_id = e.source_id
     WHERE e.run_id = c.run_id AND e.kind = 'start' AND a.dim IN (SELECT value FROM json_each(c.told_once))
       AND a.value NOT IN ('prefill', 'decode')
     GROUP BY a.dim HAVING min(a.value) < max(a.value) ORDER BY a.dim LIMIT 1)) END AS rejected_why
FROM (
  SELECT
    r.id AS run_id, r.name AS run, r.status AS status,
    r.told_once AS told_once,
    r.status IN ('running', 'failed') OR EXISTS (SELECT 1 FROM ingest_run i WHERE i.run_id = r.id) AS unended,
    EXISTS (SELECT 1 FROM report_pair p WHERE p.run_id = r.id AND p.status <> 'MATCH') OR EXISTS (
      SELECT 1 FROM report_claim k
      WHERE k.run_id = r.id AND (k.kind = 'failure' OR k.kind = 'verdict' AND (k.value LIKE 'FAIL%' OR k.text LIKE 'FAIL%')))
      AS told_failing,
    -- nothing is looked through for a file without errors
    CASE WHEN EXISTS (SELECT 1 FROM ingest_error) THEN
      (SELECT count(*) FROM source s JOIN ingest_error e ON e.source_id = s.id AND e.severity = 'error'
       WHERE s.run_id = r.id)
        + (SELECT count(*) FROM ingest_error e
           WHERE e.severity = 'error' AND e.about <= r.name
             AND (e.about = r.name OR r.name > e.about || '/' AND r.name < e.about || '0'))
        + (SELECT count(DISTINCT e.id)
           FROM source s
           JOIN source_location l ON l.source_id = s.id AND instr(l.path, '!') > 0
           JOIN ingest_error e ON e.file = substr(l.path, 1, instr(l.path, '!') - 1) AND e.line = 0
             AND e.source_id IS NULL AND e.severity = 'error'
           WHERE s.run_id = r.id
             AND (e.about = r.name OR r.name > e.about || '/' AND r.name < e.about || '0') IS NOT TRUE)
      ELSE 0 END
      + CASE WHEN EXISTS (SELECT 1 FROM run_event e WHERE e.run_id = r.id AND e.kind = 'start') AND EXISTS (
          SELECT 1 FROM attribute a CROSS JOIN attribute b ON b.run_id = a.run_id AND b.dim = a.dim AND b.value > a.value
          WHERE a.run_id = r.id)  -- the same, whatever said them
        THEN (SELECT count(*) FROM (
          SELECT 1 FROM run_event e JOIN attribute a ON a.run_id = e.run_id AND a.source_id = e.source_id
          WHERE e.run_id = r.id AND e.kind = 'start' AND a.dim IN (SELECT value FROM json_each(r.told_once))
            AND a.value NOT IN ('prefill', 'decode')  -- a leg's own name is no mode
          GROUP BY a.dim HAVING min(a.value) < max(a.value)))
        ELSE 0 END AS rejected
  FROM (
    -- what a run has one of: two values that its run_start lines state cannot both be true of it
    SELECT n.*, '["run", "experiment", "date", "commit", "mode", "dtype", "seed", "backend", "model", "model_root", "model_sha256"]'
      AS told_once
    FROM run n) r) c;
