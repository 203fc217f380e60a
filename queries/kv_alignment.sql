-- One row per run, prompt, layer and position where Q, K, V, the cache or the attention scores were
-- traced on both sides: do prefill and decode attend over the same keys and values, and if not, does
-- it matter?
CREATE VIEW kv_alignment AS
SELECT
  a.run AS run,                                        -- run.name
  q.name AS prompt,
  a.layer AS layer,
  a.pos_id AS pos_id,                                  -- absolute 0-based position
  a.k = 0 AS k_match,                                  -- 1 k_post_rope is bitwise equal, 0 not, NULL not comparable
  a.v = 0 AS v_match,                                  -- the same for v_proj
  a.q = 0 AS q_match,                                  -- the same for q_post_rope
  a.k_cache = 0 AND a.v_cache = 0 AS cache_match,      -- 1 the cache rows are bitwise equal; required in kv_aligned mode
  CASE a.k WHEN 1 THEN 'ROUNDING' WHEN 2 THEN 'UNKNOWN' WHEN 3 THEN 'DIVERGENT' END AS k_class, -- of a drift: ROUNDING, DIVERGENT, UNKNOWN
  CASE a.v WHEN 1 THEN 'ROUNDING' WHEN 2 THEN 'UNKNOWN' WHEN 3 THEN 'DIVERGENT' END AS v_class,
  CASE a.scores WHEN 1 THEN 'ROUNDING' WHEN 2 THEN 'UNKNOWN' WHEN 3 THEN 'DIVERGENT' END AS scores_class,
  CASE a.probs WHEN 1 THEN 'ROUNDING' WHEN 2 THEN 'UNKNOWN' WHEN 3 THEN 'DIVERGENT' END AS probs_class,
  CASE a.attn_out WHEN 1 THEN 'ROUNDING' WHEN 2 THEN 'UNKNOWN' WHEN 3 THEN 'DIVERGENT' END AS attn_out_class,
  a.k = 0 AND a.v = 0 AS kv_aligned,                   -- 1 when both K and V match
  CASE
    WHEN a.k IS NULL OR a.v IS NULL OR a.q IS NULL OR a.attn_out IS NULL THEN 'UNKNOWN'
    WHEN a.q >= 3 THEN 'Q_MISMATCH'
    WHEN (a.k > 0 OR a.v > 0) AND a.attn_out >= 3 THEN 'REAL_MISMATCH'
    WHEN a.k > 0 OR a.v > 0 THEN 'STRUCTURAL_DRIFT'
    WHEN a.attn_out >= 3 OR ifnull(a.scores >= 3, 0) OR ifnull(a.probs >= 3, 0) THEN 'KV_MISALIGNMENT'
    ELSE 'ALIGNED'
  END AS interpretation,                               -- Q_MISMATCH, REAL_MISMATCH, STRUCTURAL_DRIFT, KV_MISALIGNMENT, ALIGNED, UNKNOWN
  CASE WHEN CASE a.mode WHEN 'kv_aligned' THEN a.k_cache = 0 AND a.v_cache = 0
                        ELSE a.k = 0 AND a.v = 0 END
       THEN 'PASS' ELSE 'KV_MISMATCH' END AS status,   -- PASS or KV_MISMATCH; rows that are not there never PASS
  a.mode AS mode,                                      -- of the run
  a.run_id AS run_id
FROM (
  SELECT
    p.run AS run, p.run_id AS run_id, p.mode AS mode, p.prompt_id AS prompt_id, p.layer AS layer,
    p.pos_id AS pos_id,
    max(CASE p.tensor_id WHEN 50 THEN p.grade END) AS q, max(CASE p.tensor_id WHEN 51 THEN p.grade END) AS k,
    max(CASE p.tensor_id WHEN 42 THEN p.grade END) AS v, max(CASE p.tensor_id WHEN 55 THEN p.grade END) AS k_cache,
    max(CASE p.tensor_id WHEN 56 THEN p.grade END) AS v_cache, max(CASE p.tensor_id WHEN 60 THEN p.grade END) AS scores,
    max(CASE p.tensor_id WHEN 61 THEN p.grade END) AS probs, max(CASE p.tensor_id WHEN 70 THEN p.grade END) AS attn_out
  FROM pair_graded p
  WHERE p.tensor_id IN (42, 50, 51, 55, 56, 60, 61, 70)
  GROUP BY p.run, p.run_id, p.mode, p.prompt_id, p.layer, p.pos_id
  HAVING max(p.tensor_id <> 70)
) a
JOIN prompt q ON q.id = a.prompt_id
ORDER BY a.run_id, a.prompt_id, a.pos_id, a.layer;
