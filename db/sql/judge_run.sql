-- Judges a run (?1): keeps what the view verdict_now says of it. Another process may have done so since.
INSERT OR REPLACE INTO verdict
SELECT
  run_id, level, item, evidence, report_source_id, verdict, gate, strict_verdict, numeric_verdict, coverage, compared,
  pairs, pass, fail, drift, nonfinite, rounding, divergent, unmeasured, missing, decode_only, prefill_only, claimed,
  incomparable, unmet, first_fail, root_cause, prompt, layer, tensor, pos_id, token_id, details, strict_first_fail,
  strict_prompt, strict_layer, strict_tensor, strict_pos_id, strict_token_id, first_drift_cause, first_drift_layer,
  first_drift_tensor, numeric_first_fail, numeric_prompt, numeric_layer, numeric_tensor, numeric_pos_id,
  numeric_token_id, numeric_origin, rejected, rejected_why, until
FROM verdict_now
WHERE run_id = ?1
