-- Runs whose verdict FAILs where that of the run before them, of the same lineage, PASSed: beyond rounding (gate numeric) or bit by bit (gate strict, which as_designed fails by design). What both phases compute otherwise no verdict shows: see view regression.
-- :experiment () an experiment; all of them without
-- :gate () numeric or strict; both without
SELECT * FROM (
  SELECT g.gate, v.experiment, v.mode, r.dtype,
         lag(v.date) OVER earlier AS passed_on, lag(v.commit_sha) OVER earlier AS passed_at,
         v.date AS failed_on, v.commit_sha AS failed_at,
         CASE g.gate WHEN 'strict' THEN v.first_fail ELSE v.numeric_first_fail END AS first_fail,
         CASE g.gate WHEN 'strict' THEN v.layer ELSE v.numeric_layer END AS layer,
         CASE g.gate WHEN 'strict' THEN v.tensor ELSE v.numeric_tensor END AS tensor,
         CASE g.gate WHEN 'strict' THEN v.prompt ELSE v.numeric_prompt END AS prompt,
         lag(v.run) OVER earlier AS passed_run, v.run AS failed_run,
         lag(CASE g.gate WHEN 'strict' THEN v.verdict ELSE v.numeric_verdict END) OVER earlier AS before,
         CASE g.gate WHEN 'strict' THEN v.verdict ELSE v.numeric_verdict END AS after
  FROM (SELECT 'numeric' AS gate UNION ALL SELECT 'strict') g
  CROSS JOIN run_verdict v
  JOIN run r ON r.id = v.run_id
  JOIN lineage_member m ON m.run_id = v.run_id AND NOT m.injected
  WHERE (v.experiment = :experiment OR :experiment IS NULL) AND (g.gate = :gate OR :gate IS NULL)
    AND CASE g.gate WHEN 'strict' THEN v.verdict ELSE v.numeric_verdict END IN ('PASS', 'FAIL')
  WINDOW earlier AS (PARTITION BY g.gate, m.lineage ORDER BY v.date, r.started_at, length(v.run), v.run))
WHERE before = 'PASS' AND after = 'FAIL'
ORDER BY failed_on, experiment, failed_run, gate;
