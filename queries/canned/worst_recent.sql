-- The runs of the newest day, the worst first: what fails, what has no verdict, what passes by rounding only, what passes; those with a fault on purpose come last. `greta-db open` shows the first.
-- :experiment () an experiment; all of them without
SELECT v.run, v.date, v.experiment, v.mode, v.verdict, v.strict_verdict, m.injected, v.run_id
FROM run r
JOIN lineage_member m ON m.run_id = r.id
JOIN run_verdict v ON v.run_id = r.id
WHERE (r.experiment = :experiment OR :experiment IS NULL)
  AND coalesce(r.date, substr(r.started_at, 1, 10), '') = (
    SELECT max(coalesce(w.date, substr(w.started_at, 1, 10), '')) FROM run w
    WHERE (w.experiment = :experiment OR :experiment IS NULL)
      AND NOT EXISTS (SELECT 1 FROM directory_level d WHERE d.run_id = w.id))
ORDER BY
  m.injected,
  CASE v.verdict WHEN 'FAIL' THEN 0 WHEN 'PASS' THEN 3 - (v.strict_verdict = 'FAIL') ELSE 1 END,
  r.started_at DESC, v.run;
