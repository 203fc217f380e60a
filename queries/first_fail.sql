-- One row per run and prompt that fails: where, in forward order, it fails first. A prompt with
-- missing rows fails as TRACE_OFFSET; its first drift, if any, is in first_drift_*.
CREATE VIEW first_fail AS
SELECT
  v.run AS run,                                        -- run.name
  q.name AS prompt,                                    -- the prompt that fails
  CASE v.evidence WHEN 'trace' THEN
    (SELECT t.token_id FROM trace_row t
     WHERE t.run_id = v.run_id AND t.prompt_id = v.fail_prompt_id AND t.side IN (0, 1)
       AND t.pos_id = v.fail_at AND t.layer = v.fail_layer AND t.tensor_id = v.fail_tensor_id
     ORDER BY t.side LIMIT 1)
    ELSE (SELECT t.token_id FROM report_pair t
     WHERE t.source_id = v.report_source_id AND t.line = v.fail_at) END AS token_id, -- NULL when the trace has none
  CASE v.evidence WHEN 'trace' THEN
    (SELECT t.pos_id FROM trace_row t
     WHERE t.run_id = v.run_id AND t.prompt_id = v.fail_prompt_id AND t.side IN (0, 1)
       AND t.pos_id = v.fail_at AND t.layer = v.fail_layer AND t.tensor_id = v.fail_tensor_id
     ORDER BY t.side LIMIT 1)
    ELSE (SELECT t.pos_id FROM report_pair t
     WHERE t.source_id = v.report_source_id AND t.line = v.fail_at) END AS pos_id,     -- absolute 0-based position
  v.fail_layer AS layer,                               -- of the first fail; NULL when a report does not say
  coalesce(
    (SELECT n.name FROM trace_row t JOIN tensor_name n ON n.id = t.name_id
     WHERE t.run_id = v.run_id AND t.prompt_id = v.fail_prompt_id AND t.side IN (0, 1)
       AND t.pos_id = v.fail_at AND t.layer = v.fail_layer AND t.tensor_id = v.fail_tensor_id
     ORDER BY t.side LIMIT 1),
    (SELECT n.name FROM report_pair t JOIN tensor_name n ON n.id = t.name_id
     WHERE t.source_id = v.report_source_id AND t.line = v.fail_at),
    (SELECT name FROM tensor WHERE id = v.fail_tensor_id)) AS tensor,             -- as the prefill row names it
  v.fail_cause AS first_fail,                          -- cause: TRACE_OFFSET, ATTN_OUT_DRIFT, ...
  (SELECT root_cause FROM cause WHERE name = v.fail_cause) AS root_cause, -- what the cause means: ATTENTION_COMPUTATION_MISMATCH, ...
  CASE
    WHEN v.missing > 0 THEN printf('%d rows have no partner%s', v.missing,
      CASE WHEN v.missing_elsewhere THEN ', though the other side traced such a tensor at another position' ELSE '' END)
    WHEN v.evidence = 'report' THEN (SELECT t.details FROM report_pair t
      WHERE t.source_id = v.report_source_id AND t.line = v.fail_at)
    ELSE (SELECT printf('%s%s%s: prefill %s, decode %s%s', g.status,
              CASE WHEN g.status <> 'DRIFT' THEN '' WHEN g.rel_l2 IS NULL THEN ' UNKNOWN'
                   WHEN g.rel_l2 <= g.tolerance THEN ' ROUNDING' ELSE ' DIVERGENT' END,
              CASE WHEN g.rel_l2 IS NULL THEN '' ELSE printf(' rel_l2=%.3g', g.rel_l2) END,
              CASE WHEN g.prefill_hash IS NULL THEN 'without hash' ELSE printf('%llu', g.prefill_hash) END,
              CASE WHEN g.decode_hash IS NULL THEN 'without hash' ELSE printf('%llu', g.decode_hash) END,
              CASE WHEN g.status = 'NONFINITE' THEN printf(' (prefill nan=%d inf=%d, decode nan=%d inf=%d)',
                g.prefill_nan, g.prefill_inf, g.decode_nan, g.decode_inf) ELSE '' END)
          FROM pair_status g
          WHERE g.run_id = v.run_id AND g.prompt_id = v.prompt_id AND g.pos_id = v.fail_at
            AND g.layer = v.fail_layer AND g.tensor_id = v.fail_tensor_id
            AND g.status IN ('DRIFT', 'NONFINITE', 'AMBIGUOUS') LIMIT 1)
  END AS details,                                      -- in words
  v.drift_layer AS first_drift_layer,                  -- first pair that fails by its values
  coalesce(
    (SELECT n.name FROM trace_row t JOIN tensor_name n ON n.id = t.name_id
     WHERE t.run_id = v.run_id AND t.prompt_id = v.drift_prompt_id AND t.side IN (0, 1)
       AND t.pos_id = v.drift_at AND t.layer = v.drift_layer AND t.tensor_id = v.drift_tensor_id
     ORDER BY t.side LIMIT 1),
    (SELECT n.name FROM report_pair t JOIN tensor_name n ON n.id = t.name_id
     WHERE t.source_id = v.report_source_id AND t.line = v.drift_at),
    (SELECT name FROM tensor WHERE id = v.drift_tensor_id)) AS first_drift_tensor, -- as the prefill row names it
  v.drift_cause AS first_drift_cause,                  -- ATTN_OUT_DRIFT, ...
  v.divergent_cause AS numeric_first_fail,             -- cause of the first pair beyond rounding
  v.divergent_layer AS numeric_layer,                  -- of that pair
  CASE WHEN v.divergent_at IS NOT NULL THEN coalesce(
    (SELECT n.name FROM trace_row t JOIN tensor_name n ON n.id = t.name_id
     WHERE t.run_id = v.run_id AND t.prompt_id = v.divergent_prompt_id AND t.side IN (0, 1)
       AND t.pos_id = v.divergent_at AND t.layer = v.divergent_layer AND t.tensor_id = v.divergent_tensor_id
     ORDER BY t.side LIMIT 1),
    (SELECT n.name FROM report_pair t JOIN tensor_name n ON n.id = t.name_id
     WHERE t.source_id = v.report_source_id AND t.line = v.divergent_at),
    (SELECT name FROM tensor WHERE id = v.divergent_tensor_id)) END AS numeric_tensor, -- as the prefill row names it
  CASE WHEN v.divergent_at IS NULL THEN NULL ELSE
    CASE (SELECT i.worst_input >> 40 FROM pair_inputs i
          WHERE i.run_id = v.run_id AND i.prompt_id = v.divergent_prompt_id
            AND i.pos_id = v.divergent_at AND i.layer = v.divergent_layer
            AND i.tensor_id = v.divergent_tensor_id LIMIT 1)
    WHEN 1 THEN 'ORIGIN' WHEN 2 THEN 'ORIGIN' WHEN 4 THEN 'PROPAGATED' ELSE 'UNSAMPLED' END END AS numeric_origin, -- ORIGIN, PROPAGATED, UNSAMPLED; rounding inputs count as clean
  v.evidence AS evidence,                              -- trace or report
  v.run_id AS run_id,                                  -- run.id
  v.prompt_id AS prompt_id                             -- prompt.id
FROM verdict_first v
JOIN prompt q ON q.id = v.prompt_id
WHERE v.prompt_id > 0 AND (v.missing > 0 OR v.fail > 0);
