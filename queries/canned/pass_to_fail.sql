-- Runs whose verdict is FAIL where that of the run before them, of the same lineage, is PASS. What both phases compute otherwise no verdict shows: see view regression.
-- :experiment () an experiment; all of them without
SELECT * FROM (
  SELECT v.gate, v.experiment, v.mode, r.dtype,
         lag(v.date) OVER earlier AS passed_on, lag(v.commit_sha) OVER earlier AS passed_at,
         v.date AS failed_on, v.commit_sha AS failed_at,
         v.first_fail, v.layer, v.tensor, v.prompt,
         lag(v.run) OVER earlier AS passed_run, v.run AS failed_run,
         lag(v.verdict) OVER earlier AS before, v.verdict AS after
  FROM run_verdict v
  JOIN run r ON r.id = v.run_id
  JOIN lineage_member m ON m.run_id = v.run_id AND NOT m.injected
  WHERE (v.experiment = :experiment OR :experiment IS NULL) AND v.verdict IN ('PASS', 'FAIL')
  WINDOW earlier AS (PARTITION BY m.lineage ORDER BY v.date, ifnull(r.started_at, '~'), r.id))
WHERE before = 'PASS' AND after = 'FAIL'
ORDER BY failed_on, experiment, failed_run;
