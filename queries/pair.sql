-- One row per comparison: the same token at the same position, layer and trace point, as prefill
-- and as decode wrote it; also what has no partner (MISSING, DECODE_ONLY).
-- A run without trace rows shows the pairs of its best report table (evidence 'report').
CREATE VIEW pair AS
SELECT
  s.run AS run,                                        -- run.name
  q.name AS prompt,                                    -- prompt of the run
  s.token_id AS token_id,                              -- NULL when the trace has none
  s.logical_tok_idx AS logical_tok_idx,                -- NULL when the trace has none
  s.pos_id AS pos_id,                                  -- absolute 0-based position
  s.layer AS layer,                                    -- -1: after the stack, in old files
  m.name AS tensor,                                    -- as the prefill row names it
  t.name AS canonical_tensor,                          -- first name of the trace point
  s.status AS status,                                  -- MISSING, DECODE_ONLY, AMBIGUOUS, NONFINITE, INCOMPARABLE, MATCH, DRIFT
  s.class AS class,                                    -- of a DRIFT: ROUNDING, DIVERGENT, UNKNOWN
  CASE WHEN s.status IN ('DRIFT', 'NONFINITE', 'AMBIGUOUS') THEN
    CASE w.value >> 40 WHEN 1 THEN 'ORIGIN' WHEN 2 THEN 'PROPAGATED' WHEN 4 THEN 'PROPAGATED'
                       ELSE 'UNSAMPLED' END END AS origin, -- ORIGIN, PROPAGATED, UNSAMPLED; NULL for what did not fail
  (SELECT i.inputs_complete FROM pair_inputs i
    WHERE i.run_id = s.run_id AND i.prompt_id = s.prompt_id AND i.pos_id = s.pos_id AND i.layer = s.layer
      AND i.tensor_id = s.tensor_id AND i.token_id IS s.token_id
      AND i.logical_tok_idx IS s.logical_tok_idx) AS inputs_complete,                -- 1 when the direct inputs were traced on both sides
  s.scope AS scope,                                    -- full, prefix, sample: what was compared
  s.compared_n AS compared_n,                          -- values compared
  s.cause AS cause,                                    -- ATTN_OUT_DRIFT, TRACE_OFFSET, AMBIGUOUS_TRACE, ...
  c.root_cause AS root_cause,                          -- what the cause means
  CASE WHEN s.prefill_hash IS NOT NULL THEN printf('%llu', s.prefill_hash) END AS prefill_hash, -- unsigned decimal
  CASE WHEN s.decode_hash IS NOT NULL THEN printf('%llu', s.decode_hash) END AS decode_hash,    -- unsigned decimal
  s.rel_l2 AS rel_l2,                                  -- estimated relative L2 distance, NULL when there is nothing to measure with
  s.tolerance AS tolerance,                            -- rel_l2 up to which a DRIFT is ROUNDING
  CASE WHEN s.status IN ('DRIFT', 'NONFINITE', 'AMBIGUOUS') THEN
    CASE w.value >> 40 WHEN 1 THEN 'ORIGIN' WHEN 2 THEN 'ORIGIN' WHEN 4 THEN 'PROPAGATED'
                       ELSE 'UNSAMPLED' END END AS numeric_origin, -- as origin, rounding inputs counting as clean
  CASE s.status
    WHEN 'NONFINITE' THEN printf('prefill nan=%d inf=%d, decode nan=%d inf=%d',
      s.prefill_nan, s.prefill_inf, s.decode_nan, s.decode_inf)
    WHEN 'AMBIGUOUS' THEN 'several different rows on one side'
    WHEN 'DRIFT' THEN printf('prefill %s, decode %s',
      CASE WHEN s.prefill_hash IS NULL THEN 'without hash' ELSE printf('%llu', s.prefill_hash) END,
      CASE WHEN s.decode_hash IS NULL THEN 'without hash' ELSE printf('%llu', s.decode_hash) END)
  END AS details,                                      -- in words
  CASE WHEN w.value >> 40 IN (2, 4) THEN
    (SELECT name FROM tensor WHERE id = 65535 - (w.value & 65535))
       || '@' || (1048574 - ((w.value >> 16) & 1048575)) END AS caused_by,    -- nearest traced input that differs, the earliest: tensor@layer
  'trace' AS evidence,                                 -- trace or report
  s.run_id AS run_id,                                  -- run.id
  s.prompt_id AS prompt_id,                            -- prompt.id
  s.tensor_id AS tensor_id                             -- tensor.id
FROM pair_graded s
JOIN json_each('[' || ifnull(CASE WHEN s.status IN ('DRIFT', 'NONFINITE', 'AMBIGUOUS') THEN (
    SELECT i.worst_input FROM pair_inputs i
    WHERE i.run_id = s.run_id AND i.prompt_id = s.prompt_id AND i.pos_id = s.pos_id AND i.layer = s.layer
      AND i.tensor_id = s.tensor_id AND i.token_id IS s.token_id
      AND i.logical_tok_idx IS s.logical_tok_idx) END, 'null') || ']') w -- computed once per row
JOIN prompt q ON q.id = s.prompt_id
JOIN tensor_name m ON m.id = s.name_id
JOIN tensor t ON t.id = s.tensor_id
LEFT JOIN cause c ON c.name = s.cause
UNION ALL
SELECT
  s.run, q.name, s.token_id, s.logical_tok_idx, s.pos_id, s.layer, m.name, t.name, s.status,
  NULL, NULL, 0, NULL, NULL, 'TRACE_OFFSET', c.root_cause,
  CASE WHEN s.prefill_hash IS NOT NULL THEN printf('%llu', s.prefill_hash) END, NULL, NULL, NULL,
  NULL,
  CASE WHEN s.elsewhere THEN 'no decode row here; decode traced it at another position'
       ELSE 'no decode row' END,
  NULL, 'trace', s.run_id, s.prompt_id, s.tensor_id
FROM pair_prefill_only s
JOIN prompt q ON q.id = s.prompt_id
JOIN tensor_name m ON m.id = s.name_id
JOIN tensor t ON t.id = s.tensor_id
LEFT JOIN cause c ON c.name = 'TRACE_OFFSET'
UNION ALL
SELECT
  s.run, q.name, s.token_id, s.logical_tok_idx, s.pos_id, s.layer, m.name, t.name, s.status,
  NULL, NULL, 0, NULL, NULL,
  CASE s.status WHEN 'MISSING' THEN 'TRACE_OFFSET' END, c.root_cause, NULL,
  CASE WHEN s.decode_hash IS NOT NULL THEN printf('%llu', s.decode_hash) END, NULL, NULL, NULL,
  CASE WHEN s.status = 'DECODE_ONLY' THEN NULL
       WHEN s.elsewhere THEN 'no prefill row here; prefill traced it at another position'
       ELSE 'no prefill row' END,
  NULL, 'trace', s.run_id, s.prompt_id, s.tensor_id
FROM pair_decode_only s
JOIN prompt q ON q.id = s.prompt_id
JOIN tensor_name m ON m.id = s.name_id
JOIN tensor t ON t.id = s.tensor_id
LEFT JOIN cause c ON c.name = CASE s.status WHEN 'MISSING' THEN 'TRACE_OFFSET' END
UNION ALL
SELECT
  s.run, q.name, s.token_id, NULL, s.pos_id, s.layer, m.name, t.name, s.status,
  CASE s.status WHEN 'DRIFT' THEN 'UNKNOWN' END,
  CASE WHEN s.status = 'DRIFT' THEN
    CASE w.value >> 40 WHEN 1 THEN 'ORIGIN' WHEN 4 THEN 'PROPAGATED' ELSE 'UNSAMPLED' END END,
  0, NULL, NULL, s.cause, coalesce(c.root_cause, s.root_cause), NULL, NULL, NULL, NULL,
  CASE WHEN s.status = 'DRIFT' THEN
    CASE w.value >> 40 WHEN 1 THEN 'ORIGIN' WHEN 4 THEN 'PROPAGATED' ELSE 'UNSAMPLED' END END,
  s.details,
  CASE WHEN w.value >> 40 IN (2, 4) THEN
    (SELECT name FROM tensor WHERE id = 65535 - (w.value & 65535))
       || '@' || (1048574 - ((w.value >> 16) & 1048575)) END,
  'report', s.run_id, s.prompt_id, s.tensor_id
FROM pair_report s
JOIN json_each('[' || ifnull(CASE s.status WHEN 'DRIFT' THEN (
    SELECT i.worst_input FROM pair_report_inputs i
    WHERE i.source_id = s.source_id AND i.line = s.line) END, 'null') || ']') w
JOIN prompt q ON q.id = s.prompt_id
LEFT JOIN tensor_name m ON m.id = s.name_id
LEFT JOIN tensor t ON t.id = s.tensor_id
LEFT JOIN cause c ON c.name = s.cause;
