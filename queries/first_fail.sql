-- One row per run and prompt that fails by its verdict: where, in forward order, it fails first. A prompt with
-- missing rows fails as TRACE_OFFSET; its first drift, if any, is in first_drift_*. A run that nobody has judged
-- since its rows changed has one row, with the verdict UNJUDGED.
CREATE VIEW first_fail AS
SELECT
  r.name AS run,                                       -- run.name
  v.item AS prompt,                                    -- the prompt that fails
  v.token_id AS token_id,                              -- NULL when the trace has none
  v.pos_id AS pos_id,                                  -- absolute 0-based position
  v.layer AS layer,                                    -- of the first fail; NULL when a report does not say
  v.tensor AS tensor,                                  -- as the prefill row names it
  v.first_fail AS first_fail,                          -- cause: TRACE_OFFSET, ATTN_OUT_DRIFT, ...
  v.root_cause AS root_cause,                          -- what the cause means: ATTENTION_COMPUTATION_MISMATCH, ...
  v.details AS details,                                -- in words
  v.first_drift_layer AS first_drift_layer,            -- first pair that fails by its values
  v.first_drift_tensor AS first_drift_tensor,          -- as the prefill row names it
  v.first_drift_cause AS first_drift_cause,            -- ATTN_OUT_DRIFT, ...
  v.strict_first_fail AS strict_first_fail,            -- cause of the first that is not bitwise equal
  v.strict_layer AS strict_layer,                      -- of that
  v.strict_tensor AS strict_tensor,                    -- of that
  v.strict_pos_id AS strict_pos_id,                    -- of that
  v.numeric_first_fail AS numeric_first_fail,          -- cause of the first pair beyond rounding
  v.numeric_layer AS numeric_layer,                    -- of that pair
  v.numeric_tensor AS numeric_tensor,                  -- of that pair
  v.numeric_origin AS numeric_origin,                  -- ORIGIN, PROPAGATED, UNSAMPLED; rounding inputs count as clean
  v.numeric_pos_id AS numeric_pos_id,                  -- of that pair
  v.evidence AS evidence,                              -- trace or report
  ifnull(v.verdict, 'UNJUDGED') AS verdict,            -- of the prompt: see run_verdict
  v.item IS (SELECT w.prompt FROM verdict w WHERE w.run_id = r.id AND w.level = 'run' AND w.item = '') AS leads, -- 1: the run fails first here
  r.id AS run_id,                                      -- run.id
  q.id AS prompt_id                                    -- prompt.id
FROM run r
LEFT JOIN verdict v ON v.run_id = r.id AND v.level = 'prompt' AND v.first_fail IS NOT NULL
LEFT JOIN prompt q ON q.run_id = r.id AND q.name = v.item
WHERE v.run_id IS NOT NULL OR NOT EXISTS (SELECT 1 FROM verdict w WHERE w.run_id = r.id)
  AND NOT EXISTS (SELECT 1 FROM directory_level d WHERE d.run_id = r.id);
