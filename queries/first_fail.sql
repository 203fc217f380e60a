-- One row per run and prompt that fails: where, in forward order, it fails first. A prompt with
-- missing rows fails as TRACE_OFFSET; its first drift, if any, is in first_drift_*.
CREATE VIEW first_fail AS
SELECT
  v.run AS run,                                        -- run.name
  q.name AS prompt,                                    -- the prompt that fails
  v.fail_token_id AS token_id,                         -- NULL when the trace has none
  nullif(v.fail_pos_id, -1) AS pos_id,                             -- absolute 0-based position
  v.fail_layer AS layer,                               -- of the first fail; NULL when a report does not say
  (SELECT name FROM tensor_name WHERE id = v.fail_name_id) AS tensor, -- as the prefill row names it
  v.fail_cause AS first_fail,                          -- cause: TRACE_OFFSET, ATTN_OUT_DRIFT, ...
  (SELECT root_cause FROM cause WHERE name = v.fail_cause) AS root_cause, -- what the cause means: ATTENTION_COMPUTATION_MISMATCH, ...
  CASE
    WHEN v.missing > 0 THEN printf('%d rows have no partner%s', v.missing,
      CASE WHEN v.missing_elsewhere THEN ', though the other side traced such a tensor at another position' ELSE '' END)
    WHEN v.fail_cause IN ('FINAL_NORM_REFUTED', 'LOGITS_REFUTED') THEN (
      SELECT printf('REFUTED: %s at step %d is rel_l2=%.3g from double arithmetic',
        CASE o.side WHEN 0 THEN 'prefill' ELSE 'decode' END, o.step, o.error)
      FROM refuted_readout o
      WHERE o.run_id = v.run_id AND o.prompt_id = v.prompt_id AND o.cause = v.fail_cause
        AND o.pos_id = v.fail_pos_id LIMIT 1)
    WHEN e.evidence = 'report' THEN (SELECT t.details FROM report_pair t
      WHERE t.source_id = e.report_source_id AND t.line = v.fail_report_line)
    ELSE (SELECT CASE WHEN g.alone THEN printf('%s: nan=%d inf=%d, in a row of %s that has no partner',
              g.status, g.x_nan, g.x_inf, (SELECT h.name FROM phase h WHERE h.id = g.phase_id))
            ELSE printf('%s%s%s: prefill %s, decode %s%s', g.status,
              CASE WHEN g.class IS NULL THEN '' ELSE ' ' || g.class END,
              CASE WHEN g.rel_l2 IS NULL THEN '' ELSE printf(' rel_l2=%.3g%s', g.rel_l2,
                CASE WHEN g.measure = 'exact' THEN ' exact' || (SELECT ', ' || d.location FROM located_difference d
                  WHERE d.run_id = g.run_id AND d.prompt_id = g.key_prompt_id AND d.pos_id = g.key_pos_id AND d.layer = g.key_layer
                    AND d.tensor_id = g.key_tensor_id AND d.prefill_hash = g.prefill_hash AND d.decode_hash = g.decode_hash)
                ELSE '' END) END,
              CASE WHEN g.x_hash IS NULL THEN 'without hash' ELSE printf('%llu', g.x_hash) END,
              CASE WHEN g.y_hash IS NULL THEN 'without hash' ELSE printf('%llu', g.y_hash) END,
              CASE WHEN g.status = 'NONFINITE' THEN printf(' (prefill nan=%d inf=%d, decode nan=%d inf=%d)',
                g.x_nan, g.x_inf, g.y_nan, g.y_inf) ELSE '' END) END
          FROM comparison_classed g
          WHERE g.axis = 'phases' AND g.run_id = v.run_id AND g.other_run_id = v.run_id
            AND g.key_prompt_id = v.prompt_id AND g.side IN (0, 1, 2) AND g.key_pos_id = v.fail_pos_id
            AND g.key_layer = v.fail_layer AND g.key_tensor_id = v.fail_tensor_id
            AND g.token_id IS v.fail_token_id AND g.fails LIMIT 1)
  END AS details,                                      -- in words
  v.drift_layer AS first_drift_layer,                  -- first pair that fails by its values
  (SELECT name FROM tensor_name WHERE id = v.drift_name_id) AS first_drift_tensor, -- as the prefill row names it
  v.drift_cause AS first_drift_cause,                  -- ATTN_OUT_DRIFT, ...
  v.divergent_cause AS numeric_first_fail,             -- cause of the first pair beyond rounding
  v.divergent_layer AS numeric_layer,                  -- of that pair
  (SELECT name FROM tensor_name WHERE id = v.divergent_name_id) AS numeric_tensor, -- as the prefill row names it
  CASE WHEN v.divergent_cause IS NOT NULL THEN
    (SELECT i.numeric_origin FROM place_origin i
     WHERE i.run_id = v.run_id AND i.prompt_id = v.divergent_prompt_id AND i.pos_id = v.divergent_pos_id
       AND i.layer = v.divergent_layer AND i.tensor_id = v.divergent_tensor_id
       AND i.token_id IS v.divergent_token_id LIMIT 1) END AS numeric_origin, -- ORIGIN, PROPAGATED, UNSAMPLED; rounding inputs count as clean
  nullif(v.divergent_pos_id, -1) AS numeric_pos_id,    -- of the first pair beyond rounding
  e.evidence AS evidence,                              -- trace or report
  v.run_id AS run_id,                                  -- run.id
  v.prompt_id AS prompt_id                             -- prompt.id
FROM verdict_row v
JOIN run_evidence e ON e.run_id = v.run_id
JOIN prompt q ON q.id = v.prompt_id
WHERE v.prompt_id > 0 AND (v.missing > 0 OR v.fail > 0);
