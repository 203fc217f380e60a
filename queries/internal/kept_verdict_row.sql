-- verdict_row of the runs of which it is kept.
CREATE VIEW kept_verdict_row AS
SELECT
  k.run_id AS run_id, n.name AS run, k.prompt_id AS prompt_id, k.pairs AS pairs, k.pass AS pass, k.fail AS fail,
  k.drift AS drift, k.nonfinite AS nonfinite, k.rounding AS rounding, k.divergent AS divergent,
  k.unmeasured AS unmeasured, k.missing AS missing, k.missing_elsewhere AS missing_elsewhere,
  k.decode_only AS decode_only, k.prefill_only AS prefill_only,
  k.claimed AS claimed, k.incomparable AS incomparable, k.unmet AS unmet,
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
JOIN kept_verdict k ON k.run_id = n.id;
