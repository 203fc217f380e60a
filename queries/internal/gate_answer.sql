-- The answer of the gate: the ladder of a run's own verdict and of what changed. level: gate where what is waived
-- is left out, else run.
CREATE VIEW gate_answer AS
SELECT
  b.*,
  CASE
    WHEN b.own_strict_verdict = 'FAIL' OR b.change IN ('BROKEN', 'CHANGED', 'ROUNDING') THEN 'FAIL'
    WHEN b.own_strict_verdict <> 'PASS' THEN b.own_strict_verdict
    WHEN b.baseline_id IS NULL OR b.change IN ('SAME', 'FIXED') THEN 'PASS'
    ELSE 'INCOMPARABLE'
  END AS strict_answer,
  CASE
    WHEN b.own_numeric_verdict = 'FAIL' OR b.change = 'CHANGED' THEN 'FAIL'
    -- the strict verdict alone turned: by rounding, where values are the same but for that
    WHEN b.change = 'BROKEN' AND b.values_verdict = 'FAIL' THEN 'FAIL'
    WHEN b.own_numeric_verdict <> 'PASS' THEN b.own_numeric_verdict
    WHEN b.baseline_id IS NULL OR b.change IN ('SAME', 'FIXED', 'ROUNDING') THEN 'PASS'
    WHEN b.change = 'BROKEN' AND b.values_verdict = 'PASS' THEN 'PASS'
    ELSE 'INCOMPARABLE'
  END AS numeric_answer
FROM (
  SELECT
    k.run_id AS run_id, k.baseline_id AS baseline_id, k.own_baseline AS own_baseline, k.level AS level,
    ifnull(g.verdict, 'UNJUDGED') AS own_verdict, ifnull(g.strict_verdict, 'UNJUDGED') AS own_strict_verdict,
    ifnull(g.numeric_verdict, 'UNJUDGED') AS own_numeric_verdict, ifnull(g.gate, 'strict') AS gate,
    c.change AS change, c.numeric_verdict AS values_verdict
  FROM (
    SELECT
      p.*, CASE WHEN EXISTS (
        SELECT 1 FROM verdict g WHERE g.run_id = p.run_id AND g.level = 'gate' AND g.until >= date('now')) THEN 'gate' ELSE 'run' END AS level
    FROM (
      SELECT l.run_id AS run_id, l.baseline_id AS baseline_id, 1 AS own_baseline FROM lineage l
      UNION ALL
      SELECT c.run_id, c.baseline_id, 0 FROM run_change c
      WHERE c.level = 'run' AND c.baseline_id IS NOT (SELECT l.baseline_id FROM lineage l WHERE l.run_id = c.run_id)) p) k
  LEFT JOIN verdict g ON g.run_id = k.run_id AND g.level = k.level AND g.item = ''
  LEFT JOIN change_since c ON c.run_id = k.run_id AND c.baseline_id = k.baseline_id AND c.level = k.level) b;
