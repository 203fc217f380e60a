-- Changes between a run and another one as its baseline, for the pairs that run_change has. Level gate: without
-- waived differences. Name the run. One table in FROM, so that a LEFT JOIN reaches its key.
CREATE VIEW change_since AS
SELECT
  d.*,
  (SELECT CASE
     WHEN d.why_not IS NOT NULL THEN 'INCOMPARABLE'
     WHEN w.verdict = 'PASS' AND v.verdict = 'FAIL' THEN 'BROKEN'
     WHEN w.verdict = 'FAIL' AND v.verdict = 'PASS' THEN 'FIXED'
     -- rows that the baseline lacked are there, and what it had is as it was
     WHEN w.verdict = 'INCOMPLETE' AND v.verdict = 'PASS' AND d.only_b > 0
       AND d.only_a + d.divergent + d.nonfinite + d.unknown = 0 THEN 'FIXED'
     -- what the baseline lacks may be what differs
     WHEN w.verdict = 'INCOMPLETE' AND v.verdict <> 'INCOMPLETE' AND d.numeric_verdict = 'INCOMPLETE' THEN 'INCOMPARABLE'
     WHEN d.strict_verdict IN ('PASS', 'INCOMPLETE') THEN 'SAME'
     WHEN d.numeric_verdict IN ('PASS', 'INCOMPLETE') THEN 'ROUNDING'
     WHEN d.numeric_verdict = 'FAIL' THEN 'CHANGED'
     ELSE 'INCOMPARABLE'
   END
   FROM verdict v CROSS JOIN verdict w
   WHERE v.run_id = d.run_id AND v.level = d.level AND v.item = '' AND w.run_id = d.baseline_id AND w.item = ''
     AND w.level = CASE WHEN d.level = 'gate' AND EXISTS (
       SELECT 1 FROM verdict g WHERE g.run_id = d.baseline_id AND g.level = 'gate' AND g.until >= date('now')) THEN 'gate' ELSE 'run' END) AS change
FROM run_change d
WHERE EXISTS (SELECT 1 FROM verdict v WHERE v.run_id = d.run_id AND v.level = d.level AND v.item = '')
  AND EXISTS (SELECT 1 FROM verdict w WHERE w.run_id = d.baseline_id AND w.level = 'run' AND w.item = '');
