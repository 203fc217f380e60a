-- The ladder: what the comparisons of a run (prompt_id 0), and of a run and prompt, amount to, and the
-- first of them that fails, in forward order. Nothing that a document claims, and nothing of an ingest
-- that rejected something or has not ended, passes.
CREATE VIEW verdict_part AS
SELECT
  v.*,
  CASE
    WHEN v.fail > 0 OR v.missing_elsewhere > 0 THEN 'FAIL'
    WHEN r.status IN ('running', 'failed') OR v.unmet > 0 OR EXISTS (
      SELECT 1 FROM ingest_run i WHERE i.run_id = v.run_id) THEN 'INCOMPLETE'
    WHEN v.missing > 0 THEN 'FAIL'
    WHEN v.pairs = v.claimed THEN 'NO_EVIDENCE'
    WHEN (SELECT e.rejected FROM run_rejection e WHERE e.run_id = v.run_id) > 0 THEN 'INCOMPLETE'
    WHEN v.claimed > 0 THEN 'INCOMPARABLE'
    WHEN v.pass = v.pairs THEN CASE WHEN EXISTS (
      SELECT 1 FROM report_pair p WHERE p.run_id = v.run_id AND p.status <> 'MATCH') OR EXISTS (
      SELECT 1 FROM report_claim c WHERE c.run_id = v.run_id AND (c.kind = 'failure'
        OR c.kind = 'verdict' AND (c.value LIKE 'FAIL%' OR c.text LIKE 'FAIL%')))
      THEN 'INCOMPARABLE' ELSE 'PASS' END
    ELSE 'INCOMPARABLE'
  END AS verdict,
  -- the same, ROUNDING read as MATCH and UNKNOWN as INCOMPARABLE
  CASE
    WHEN v.fail - v.drift + v.divergent > 0 OR v.missing_elsewhere > 0 THEN 'FAIL'
    WHEN r.status IN ('running', 'failed') OR v.unmet > 0 OR EXISTS (
      SELECT 1 FROM ingest_run i WHERE i.run_id = v.run_id) THEN 'INCOMPLETE'
    WHEN v.missing > 0 THEN 'FAIL'
    WHEN v.pairs = v.claimed THEN 'NO_EVIDENCE'
    WHEN (SELECT e.rejected FROM run_rejection e WHERE e.run_id = v.run_id) > 0 THEN 'INCOMPLETE'
    WHEN v.claimed > 0 THEN 'INCOMPARABLE'
    WHEN v.pass + v.rounding = v.pairs THEN CASE WHEN v.drift = 0 AND (EXISTS (
      SELECT 1 FROM report_pair p WHERE p.run_id = v.run_id AND p.status <> 'MATCH') OR EXISTS (
      SELECT 1 FROM report_claim c WHERE c.run_id = v.run_id AND (c.kind = 'failure'
        OR c.kind = 'verdict' AND (c.value LIKE 'FAIL%' OR c.text LIKE 'FAIL%'))))
      THEN 'INCOMPARABLE' ELSE 'PASS' END
    ELSE 'INCOMPARABLE'
  END AS numeric_verdict
FROM verdict_row v
JOIN run r ON r.id = v.run_id;
