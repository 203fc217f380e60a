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
FROM (
  SELECT
    k.run_id AS run_id, n.name AS run, k.prompt_id AS prompt_id, k.pairs AS pairs, k.pass AS pass, k.fail AS fail,
    k.drift AS drift, k.rounding AS rounding, k.divergent AS divergent,
    k.unmeasured AS unmeasured, k.missing AS missing, k.missing_elsewhere AS missing_elsewhere,
    k.decode_only AS decode_only, k.incomparable AS incomparable, k.unmet AS unmet,
    k.partial AS partial, k.fail_cause AS fail_cause, k.fail_layer AS fail_layer,
    k.fail_tensor_id AS fail_tensor_id, k.fail_name_id AS fail_name_id,
    k.fail_pos_id AS fail_pos_id, k.fail_token_id AS fail_token_id,
    k.fail_report_line AS fail_report_line, k.fail_prompt_id AS fail_prompt_id,
    k.drift_cause AS drift_cause, k.drift_layer AS drift_layer,
    k.drift_tensor_id AS drift_tensor_id, k.drift_name_id AS drift_name_id,
    k.drift_pos_id AS drift_pos_id, k.drift_token_id AS drift_token_id,
    k.drift_report_line AS drift_report_line, k.drift_prompt_id AS drift_prompt_id,
    k.divergent_cause AS divergent_cause, k.divergent_layer AS divergent_layer,
    k.divergent_tensor_id AS divergent_tensor_id, k.divergent_name_id AS divergent_name_id,
    k.divergent_pos_id AS divergent_pos_id, k.divergent_token_id AS divergent_token_id,
    k.divergent_report_line AS divergent_report_line,
    k.divergent_prompt_id AS divergent_prompt_id
  FROM run n
  JOIN kept_verdict k ON k.run_id = n.id
  UNION ALL
  SELECT
    c.run_id, c.run, c.prompt_id, c.pairs, c.pass, c.fail, c.drift, c.rounding, c.divergent, c.unmeasured,
    c.missing, c.missing_elsewhere, c.decode_only, c.incomparable, c.unmet, c.partial,
    c.fail_cause, c.fail_layer, c.fail_tensor_id, c.fail_name_id, c.fail_pos_id, c.fail_token_id,
    c.fail_report_line, c.fail_prompt_id, c.drift_cause, c.drift_layer, c.drift_tensor_id,
    c.drift_name_id, c.drift_pos_id, c.drift_token_id, c.drift_report_line, c.drift_prompt_id,
    c.divergent_cause, c.divergent_layer, c.divergent_tensor_id, c.divergent_name_id,
    c.divergent_pos_id, c.divergent_token_id, c.divergent_report_line, c.divergent_prompt_id
  FROM verdict_computed c
) v
JOIN run r ON r.id = v.run_id;
