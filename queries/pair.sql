-- One row per comparison: the same token at the same position, layer and trace point, as prefill
-- and as decode wrote it; also what has no partner (MISSING, DECODE_ONLY, PREFILL_ONLY).
-- A run without trace rows shows the pairs of its best report table (evidence 'report').
CREATE VIEW pair AS
SELECT
  s.run AS run,                                        -- run.name
  q.name AS prompt,                                    -- prompt of the run
  s.token_id AS token_id,                              -- NULL when the trace has none
  s.logical_tok_idx AS logical_tok_idx,                -- NULL when the trace has none
  nullif(s.pos_id, -1) AS pos_id,                      -- absolute 0-based position; NULL unknown
  s.layer AS layer,                                    -- -1: after the stack, in old files
  m.name AS tensor,                                    -- as the prefill row names it
  t.name AS canonical_tensor,                          -- first name of the trace point
  s.status AS status,                                  -- MISSING, DECODE_ONLY, PREFILL_ONLY, AMBIGUOUS, CONFLICT, NONFINITE, INCOMPARABLE, MATCH, DRIFT
  s.class AS class,                                    -- of a DRIFT: ROUNDING, EXPLAINED (beyond the tolerance, but no further than its inputs' differences explain), DIVERGENT, UNKNOWN; of an INCOMPARABLE: ROUNDING when sketches are all that compares, and equal
  s.origin AS origin,                                  -- ORIGIN, PROPAGATED, UNSAMPLED; NULL for what did not fail
  CASE WHEN s.compared AND s.report_source_id IS NULL THEN s.inputs_complete ELSE 0 END AS inputs_complete, -- 1 when the direct inputs were traced on both sides
  CASE WHEN s.compared THEN s.scope END AS scope,      -- full (the whole row), prefix (the values that a historical hash covers), sample: what was compared
  CASE WHEN s.compared THEN s.compared_n END AS compared_n, -- values compared
  s.cause AS cause,                                    -- ATTN_OUT_DRIFT, TRACE_OFFSET, AMBIGUOUS_TRACE, ...
  CASE WHEN s.cause IS NOT NULL THEN
    coalesce((SELECT c.root_cause FROM cause c WHERE c.name = s.cause), s.report_root_cause) END AS root_cause, -- what the cause means
  CASE WHEN s.prefill_hash IS NOT NULL THEN printf('%llu', s.prefill_hash) END AS prefill_hash, -- unsigned decimal
  CASE WHEN s.decode_hash IS NOT NULL THEN printf('%llu', s.decode_hash) END AS decode_hash,    -- unsigned decimal
  s.rel_l2 AS rel_l2,                                  -- relative L2 distance, see measure; NULL when there is nothing to measure with or a value is not finite
  s.tolerance AS tolerance,                            -- rel_l2 up to which a DRIFT is ROUNDING
  s.explained AS explained,                            -- beyond that, what its inputs' differences explain: up to their sum a DRIFT is EXPLAINED
  s.numeric_origin AS numeric_origin,                  -- as origin, inputs counting as clean that differ by less than an eighth of it
  CASE
    WHEN s.report_source_id IS NOT NULL THEN s.report_details
    WHEN s.status = 'NONFINITE' THEN CASE WHEN s.alone
      THEN printf('nan=%d inf=%d, in a row without a partner', s.x_nan, s.x_inf)
      ELSE printf('prefill nan=%d inf=%d, decode nan=%d inf=%d', s.x_nan, s.x_inf, s.y_nan, s.y_inf) END
    WHEN s.status = 'AMBIGUOUS' THEN 'several different rows on one side'
    WHEN s.status = 'CONFLICT' THEN CASE WHEN s.hash_equal = 0 AND s.sample_equal THEN 'equal samples of all values, but other hashes'
      ELSE printf('equal %s, but other %s', CASE WHEN s.x_hash = s.y_hash THEN 'hashes' ELSE 'sketches' END,
        CASE WHEN s.other_statistics THEN 'statistics' ELSE 'samples' END) END
    WHEN s.status = 'DRIFT' THEN printf('prefill %s, decode %s',
      CASE WHEN s.x_hash IS NULL THEN 'without hash' ELSE printf('%llu', s.x_hash) END,
      CASE WHEN s.y_hash IS NULL THEN 'without hash' ELSE printf('%llu', s.y_hash) END)
    WHEN s.status = 'MISSING' THEN
      CASE s.side WHEN 0 THEN 'no decode row' ELSE 'no prefill row' END
      || CASE WHEN NOT s.elsewhere THEN ''
              WHEN s.side = 0 THEN ' here; decode traced it at another position'
              ELSE ' here; prefill traced it at another position' END
  END AS details,                                      -- in words
  s.caused_by AS caused_by,                            -- nearest traced input that differs, the earliest: tensor@layer
  CASE WHEN s.report_source_id IS NULL THEN 'trace' ELSE 'report' END AS evidence, -- trace or report
  r.experiment AS experiment,                          -- literal directory: b3_66_v2
  r.mode AS mode,                                      -- as_designed, kv_aligned, batch_invariant; NULL unknown
  r.commit_sha AS commit_sha,                          -- commit of the engine that ran
  r.date AS date,                                      -- YYYY-MM-DD; NULL unknown
  s.segment AS segment,                                -- of what failed: from the earliest traced input to here
  s.untraced_layers AS untraced_layers,                -- where origin is UNSAMPLED: the layers in between, as --layers takes them
  CASE s.tolerance < (SELECT o.rel_l2 FROM run_tolerance o WHERE o.run_id = s.run_id AND o.tensor_id = s.tensor_id)
    WHEN 1 THEN 'calibrated' WHEN 0 THEN 'shipped' END AS tolerance_source, -- calibrated: measured of this model (noise_floor); shipped: of table tolerance
  s.forward_layer AS forward_layer,                    -- forward order: this, then tensor_id, then the position
  s.run_id AS run_id,                                  -- run.id
  s.prompt_id AS prompt_id,                            -- prompt.id
  s.tensor_id AS tensor_id,                            -- tensor.id
  s.measure AS measure,                                -- what rel_l2 comes from: exact (value by value), sample or sketch (estimates), hash (equal)
  s.rel_l2 * s.measure_low AS rel_l2_low,              -- 95 % interval of an estimate, where values that differ are many
  s.rel_l2 * s.measure_high AS rel_l2_high,            -- its other end
  (SELECT l.location FROM located_difference l WHERE l.id = s.difference_id) AS location,                              -- where the rows differ: head 5 only, last 4 values, every value; NULL unless measure is exact
  s.differing AS differing,                            -- values that differ
  s.max_abs AS max_abs,                                -- greatest distance of two finite values
  s.max_abs_at AS max_abs_at,                          -- its index in the row
  s.max_ulp AS max_ulp                                 -- greatest number of floats between two finite values
FROM comparison_origin s
JOIN run r ON r.id = s.run_id
JOIN prompt q ON q.id = s.prompt_id
LEFT JOIN tensor_name m ON m.id = s.name_id
LEFT JOIN tensor t ON t.id = s.tensor_id
WHERE s.other_run_id = s.run_id;
