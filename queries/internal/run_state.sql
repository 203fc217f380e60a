-- Per run, what its verdict goes by beside its rows, and whether it is whole: incomplete_why is NULL then, else in
-- words the first reason. unended: rows of it may still come, or never came, for it or an ingest of its files has not
-- ended. rejected: lines and files that were not taken, and what its run_start lines contradict each other in;
-- rejected_why: the most frequent reason (of files without source, that of the first). A file that gave no source
-- counts for the run that its path names and for all below it, an archive also for the runs that have something from
-- it. told_failing: a report's table or a known key says so. evidence: what its verdict rests on: its trace rows (report:
-- those that a document states), else its best report table, else nothing. The best table lists a DRIFT, if any does,
-- and has the most decided pairs; ties go to the latest stage, then to the table that says most about its pairs, then
-- to the first path. lost: rows fewer than it says it wrote.
CREATE VIEW run_state AS
SELECT
  w.run_id AS run_id, w.unended AS unended, w.rejected AS rejected, w.rejected_why AS rejected_why,
  w.told_failing AS told_failing, w.lost AS lost,
  CASE
    WHEN EXISTS (SELECT 1 FROM trace_row t WHERE t.run_id = w.run_id AND (t.flags & 8) = 0) THEN 'trace'
    WHEN EXISTS (SELECT 1 FROM trace_row t WHERE t.run_id = w.run_id) THEN 'report'
    WHEN EXISTS (SELECT 1 FROM report_pair t WHERE t.run_id = w.run_id) THEN 'report'
    ELSE 'none'
  END AS evidence,
  CASE WHEN NOT EXISTS (SELECT 1 FROM trace_row t WHERE t.run_id = w.run_id) THEN (
    SELECT q.source_id FROM report_pair q JOIN report s ON s.source_id = q.source_id
    WHERE q.run_id = w.run_id
    GROUP BY q.source_id
    ORDER BY sum(q.status = 'DRIFT') = 0, sum(q.status IN ('MATCH', 'DRIFT')) DESC, s.stage DESC, count(q.details) DESC,
             (SELECT min(path) FROM source_location l WHERE l.source_id = q.source_id)
    LIMIT 1)
  END AS report_source_id,
  CASE
    WHEN w.status IN ('running', 'failed') THEN 'it did not end (status ' || w.status || ')'
    WHEN w.unended THEN 'an ingest of its files has not ended'
    ELSE coalesce(
      (SELECT k.why FROM lacking k WHERE k.run_id = w.run_id AND k.why IS NOT NULL LIMIT 1),
      CASE WHEN w.lost > 0 THEN printf('%d rows that it says it wrote are not there', w.lost) END,
      CASE WHEN w.rejected > 0 THEN w.rejected || ' lines or files of it were not taken: ' || w.rejected_why END)
  END AS incomplete_why
FROM (
  SELECT
    c.run_id AS run_id, c.unended AS unended, c.status AS status, c.rejected AS rejected,
    c.told_failing AS told_failing,
    -- a row that an engine wrote twice counts twice; one that came again in a file does not, for that may be a copy,
    -- and one that only a document states does not
    CASE WHEN EXISTS (SELECT 1 FROM attribute a WHERE a.run_id = c.run_id AND a.dim = 'trace_rows') THEN
      (SELECT max(CAST(a.value AS INTEGER)) FROM attribute a WHERE a.run_id = c.run_id AND a.dim = 'trace_rows')
        - (SELECT count(*) FROM trace_row x WHERE x.run_id = c.run_id AND (x.flags & 8) = 0)
        - (SELECT ifnull(sum(s.duplicates), 0) FROM source s WHERE s.run_id = c.run_id AND s.shape = 'engine') END AS lost,
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
      FROM run n) r) c) w;
