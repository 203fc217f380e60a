-- The runs of the newest day, the worst first: what fails beyond rounding, what fails bit by bit, what has no verdict, what passes; those with a fault on purpose come last. `greta-db open` shows the first.
-- :experiment () an experiment; all of them without
SELECT v.run, v.date, v.experiment, v.mode, v.numeric_verdict, v.verdict, m.injected, v.run_id
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
  CASE
    WHEN v.numeric_verdict = 'FAIL' THEN 0
    WHEN v.verdict = 'FAIL' AND (v.mode IS 'batch_invariant' OR v.numeric_verdict <> 'PASS') THEN 1
    WHEN v.numeric_verdict <> 'PASS' THEN 2
    WHEN v.verdict = 'FAIL' THEN 3
    WHEN v.verdict <> 'PASS' THEN 4
    ELSE 5
  END,
  r.started_at DESC, v.run;
