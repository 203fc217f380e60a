-- Regressions: runs that FAIL where the run before them, of the same experiment, mode and dtype, PASSed.
-- :experiment () an experiment; all of them without
SELECT * FROM (
  SELECT v.experiment, v.mode, r.dtype,
         lag(v.date) OVER earlier AS passed_on, lag(v.commit_sha) OVER earlier AS passed_at,
         v.date AS failed_on, v.commit_sha AS failed_at, v.first_fail, v.layer, v.tensor, v.prompt,
         lag(v.run) OVER earlier AS passed_run, v.run AS failed_run,
         lag(v.verdict) OVER earlier AS before, v.verdict AS after
  FROM run_verdict v JOIN run r ON r.id = v.run_id
  WHERE v.verdict IN ('PASS', 'FAIL') AND (v.experiment = :experiment OR :experiment IS NULL)
  WINDOW earlier AS (PARTITION BY v.experiment, v.mode, r.dtype ORDER BY v.date, v.run_id))
WHERE before = 'PASS' AND after = 'FAIL'
ORDER BY failed_on, experiment, failed_run;
