-- The ladder: what the comparisons of a run (prompt_id 0), and of a run and prompt, amount to, and the
-- first of them that fails, in forward order.
CREATE VIEW verdict_part AS
SELECT
  v.*,
  CASE
    WHEN v.fail > 0 OR v.missing_elsewhere > 0 THEN 'FAIL'
    WHEN r.status IN ('running', 'failed') OR v.unmet > 0 THEN 'INCOMPLETE'
    WHEN v.missing > 0 THEN 'FAIL'
    WHEN v.pairs = 0 THEN 'NO_EVIDENCE'
    WHEN v.incomparable > 0 THEN 'INCOMPARABLE'
    WHEN v.pass = v.pairs THEN 'PASS'
    ELSE 'INCOMPARABLE'
  END AS verdict,
  -- the same, ROUNDING read as MATCH and UNKNOWN as INCOMPARABLE
  CASE
    WHEN v.fail - v.drift + v.divergent > 0 OR v.missing_elsewhere > 0 THEN 'FAIL'
    WHEN r.status IN ('running', 'failed') OR v.unmet > 0 THEN 'INCOMPLETE'
    WHEN v.missing > 0 THEN 'FAIL'
    WHEN v.pairs = 0 THEN 'NO_EVIDENCE'
    WHEN v.incomparable + v.unmeasured > 0 THEN 'INCOMPARABLE'
    WHEN v.pass + v.rounding = v.pairs THEN 'PASS'
    ELSE 'INCOMPARABLE'
  END AS numeric_verdict
FROM verdict_row v
JOIN run r ON r.id = v.run_id;
