-- One row per run, prompt, layer and position where Q, K, V, the cache or the attention scores were
-- traced and had to pair: do prefill and decode attend over the same keys and values, and if not,
-- does it matter? A row that is missing, or a drift that nothing measures, never reads as fine.
CREATE VIEW kv_alignment AS
SELECT
  a.run AS run,                                        -- run.name
  q.name AS prompt,                                    -- prompt of the run
  a.layer AS layer,                                    -- of the attention block
  a.pos_id AS pos_id,                                  -- absolute 0-based position
  a.k = 0 AS k_match,                                  -- 1 k_post_rope is bitwise equal, 0 not, NULL not comparable
  a.v = 0 AS v_match,                                  -- the same for v_proj
  a.q = 0 AS q_match,                                  -- the same for q_post_rope
  a.k_cache = 0 AND a.v_cache = 0 AS cache_match,      -- 1 the cache rows of the position are bitwise equal; required in kv_aligned mode
  a.k_rows = 0 AND a.v_rows = 0 AS cache_rows_match,   -- the same for all cache rows up to the position, where they were traced
  CASE a.k_size WHEN 1 THEN 'ROUNDING' WHEN 2 THEN 'UNKNOWN' WHEN 3 THEN 'DIVERGENT' END AS k_class, -- of a drift: ROUNDING, DIVERGENT, UNKNOWN
  CASE a.v_size WHEN 1 THEN 'ROUNDING' WHEN 2 THEN 'UNKNOWN' WHEN 3 THEN 'DIVERGENT' END AS v_class, -- the same for v_proj
  CASE a.scores WHEN 1 THEN 'ROUNDING' WHEN 2 THEN 'UNKNOWN' WHEN 3 THEN 'DIVERGENT' END AS scores_class, -- for attn_scores
  CASE a.probs WHEN 1 THEN 'ROUNDING' WHEN 2 THEN 'UNKNOWN' WHEN 3 THEN 'DIVERGENT' END AS probs_class, -- for attn_probs
  CASE a.attn_out WHEN 1 THEN 'ROUNDING' WHEN 2 THEN 'UNKNOWN' WHEN 3 THEN 'DIVERGENT' END AS attn_out_class, -- for attn_out
  a.k = 0 AND a.v = 0 AS kv_aligned,                   -- 1 when both K and V match
  CASE
    WHEN a.q_far THEN 'Q_MISMATCH'
    WHEN a.q_far IS NULL THEN 'UNKNOWN'
    -- rounding of K and V explains neither scores nor a cache that are far apart
    WHEN a.k_size <= 1 AND a.v_size <= 1 AND (a.cache_far OR a.scores_far OR a.probs_far) THEN 'KV_MISALIGNMENT'
    WHEN (a.k_size > 0 OR a.v_size > 0) AND a.attn_out_far THEN 'REAL_MISMATCH'
    WHEN ((a.k_size > 0 OR a.v_size > 0) AND a.attn_out_far) IS NULL THEN 'UNKNOWN'
    WHEN a.k_size > 0 OR a.v_size > 0 THEN 'STRUCTURAL_DRIFT'
    WHEN (a.k_size > 0 OR a.v_size > 0) IS NULL THEN 'UNKNOWN'
    WHEN a.attn_out_far THEN 'KV_MISALIGNMENT'
    WHEN a.attn_out_far IS NULL THEN 'UNKNOWN'
    -- not every run traces the cache, and scores and probabilities only where the kernel keeps them
    WHEN (a.k_cache_far IS NULL OR a.v_cache_far IS NULL OR a.k_rows_far IS NULL OR a.v_rows_far IS NULL
        OR a.scores_far IS NULL OR a.probs_far IS NULL) AND EXISTS (
      SELECT 1 FROM trace_row x JOIN tensor t ON t.id = x.tensor_id
      WHERE x.run_id = a.run_id AND x.prompt_id = a.prompt_id AND x.side IN (0, 1)
        AND x.pos_id = a.pos_id AND x.layer = a.layer
        AND CASE t.name
          WHEN 'k_cache' THEN a.k_cache_far IS NULL WHEN 'v_cache' THEN a.v_cache_far IS NULL
          WHEN 'k_cache_rows' THEN a.k_rows_far IS NULL WHEN 'v_cache_rows' THEN a.v_rows_far IS NULL
          WHEN 'attn_scores' THEN a.scores_far IS NULL WHEN 'attn_probs' THEN a.probs_far IS NULL END)
      THEN 'UNKNOWN'
    ELSE 'ALIGNED'
  END AS interpretation,                               -- Q_MISMATCH, REAL_MISMATCH, STRUCTURAL_DRIFT, KV_MISALIGNMENT, ALIGNED, UNKNOWN
  CASE WHEN CASE a.mode WHEN 'kv_aligned' THEN a.k_cache = 0 AND a.v_cache = 0 ELSE a.k = 0 AND a.v = 0 END
      AND NOT EXISTS (  -- rows of the cache that did not match
        SELECT 1 FROM trace_row x JOIN tensor t ON t.id = x.tensor_id
        WHERE x.run_id = a.run_id AND x.prompt_id = a.prompt_id AND x.side IN (0, 1)
          AND x.pos_id = a.pos_id AND x.layer = a.layer
          AND CASE t.name
            WHEN 'k_cache' THEN a.k_cache IS NOT 0 WHEN 'v_cache' THEN a.v_cache IS NOT 0
            WHEN 'k_cache_rows' THEN a.k_rows IS NOT 0 WHEN 'v_cache_rows' THEN a.v_rows IS NOT 0 END)
       THEN 'PASS' ELSE 'KV_MISMATCH' END AS status,   -- PASS or KV_MISMATCH; rows that are not there never PASS
  a.mode AS mode,                                      -- of the run
  a.run_id AS run_id,                                  -- run.id
  a.prompt_id AS prompt_id                             -- prompt.id
FROM (
  SELECT
    b.*,
    -- 1 beyond rounding, 0 not, NULL not known
    nullif(b.q_size, 2) >= 3 AS q_far,
    nullif(b.k_cache_size, 2) >= 3 AS k_cache_far,
    nullif(b.v_cache_size, 2) >= 3 AS v_cache_far,
    nullif(b.k_rows_size, 2) >= 3 AS k_rows_far,
    nullif(b.v_rows_size, 2) >= 3 AS v_rows_far,
    max(ifnull(b.k_cache_size, 0), ifnull(b.v_cache_size, 0), ifnull(b.k_rows_size, 0), ifnull(b.v_rows_size, 0)) >= 3 AS cache_far,
    nullif(b.scores, 2) >= 3 AS scores_far,
    nullif(b.probs, 2) >= 3 AS probs_far,
    nullif(b.attn_out, 2) >= 3 AS attn_out_far
  FROM (
    SELECT
      p.run AS run, p.run_id AS run_id, (SELECT r.mode FROM run r WHERE r.id = p.run_id) AS mode, p.key_prompt_id AS prompt_id, p.key_layer AS layer,
      p.key_pos_id AS pos_id,
      -- grades; of a size also those within rounding that nothing says to be equal
      max(CASE t.name WHEN 'q_post_rope' THEN p.grade END) AS q,
      max(CASE t.name WHEN 'k_post_rope' THEN p.grade END) AS k,
      max(CASE t.name WHEN 'v_proj' THEN p.grade END) AS v,
      max(CASE t.name WHEN 'k_cache' THEN p.grade END) AS k_cache,
      max(CASE t.name WHEN 'v_cache' THEN p.grade END) AS v_cache,
      max(CASE t.name WHEN 'k_cache_rows' THEN p.grade END) AS k_rows,
      max(CASE t.name WHEN 'v_cache_rows' THEN p.grade END) AS v_rows,
      max(CASE t.name WHEN 'q_post_rope' THEN ifnull(p.grade, p.class = 'ROUNDING') END) AS q_size,
      max(CASE t.name WHEN 'k_post_rope' THEN ifnull(p.grade, p.class = 'ROUNDING') END) AS k_size,
      max(CASE t.name WHEN 'v_proj' THEN ifnull(p.grade, p.class = 'ROUNDING') END) AS v_size,
      max(CASE t.name WHEN 'k_cache' THEN ifnull(p.grade, p.class = 'ROUNDING') END) AS k_cache_size,
      max(CASE t.name WHEN 'v_cache' THEN ifnull(p.grade, p.class = 'ROUNDING') END) AS v_cache_size,
      max(CASE t.name WHEN 'k_cache_rows' THEN ifnull(p.grade, p.class = 'ROUNDING') END) AS k_rows_size,
      max(CASE t.name WHEN 'v_cache_rows' THEN ifnull(p.grade, p.class = 'ROUNDING') END) AS v_rows_size,
      max(CASE t.name WHEN 'attn_scores' THEN ifnull(p.grade, p.class = 'ROUNDING') END) AS scores,
      max(CASE t.name WHEN 'attn_probs' THEN ifnull(p.grade, p.class = 'ROUNDING') END) AS probs,
      max(CASE t.name WHEN 'attn_out' THEN ifnull(p.grade, p.class = 'ROUNDING') END) AS attn_out
    FROM comparison_graded p
    JOIN tensor t ON t.id = p.key_tensor_id
    WHERE p.other_run_id = p.run_id AND p.side = 0 AND p.compared
      AND t.name IN ('q_post_rope', 'k_post_rope', 'v_proj', 'k_cache', 'v_cache', 'k_cache_rows', 'v_cache_rows',
                     'attn_scores', 'attn_probs', 'attn_out')
    GROUP BY p.run, p.run_id, p.key_prompt_id, p.key_layer, p.key_pos_id
    HAVING max(t.name <> 'attn_out')
  ) b
) a
JOIN prompt q ON q.id = a.prompt_id
UNION ALL
-- a layer that one side lost altogether: something had to pair, and nothing of it did
SELECT
  r.name, q.name, x.layer, x.pos_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
  'UNKNOWN', 'KV_MISMATCH', r.mode, r.id, q.id
FROM run r
JOIN trace_row x ON x.run_id = r.id AND x.side IN (0, 1) AND +x.pos_id >= 0
JOIN traced_position p ON p.run_id = x.run_id AND p.prompt_id = x.prompt_id AND p.side = 0 AND p.pos_id = x.pos_id AND p.demands
JOIN prompt q ON q.id = x.prompt_id
WHERE x.tensor_id IN (SELECT t.id FROM tensor t WHERE t.name IN (
    'q_post_rope', 'k_post_rope', 'v_proj', 'k_cache', 'v_cache', 'k_cache_rows', 'v_cache_rows', 'attn_scores', 'attn_probs'))
  AND NOT EXISTS (
    SELECT 1 FROM comparison b JOIN tensor k ON k.id = b.key_tensor_id
    WHERE b.run_id = x.run_id AND b.other_run_id = x.run_id AND b.key_prompt_id = x.prompt_id AND b.side = 0
      AND b.key_pos_id = x.pos_id AND b.key_layer = x.layer AND NOT b.alone
      AND k.name IN ('q_post_rope', 'k_post_rope', 'v_proj', 'k_cache', 'v_cache', 'k_cache_rows', 'v_cache_rows',
                     'attn_scores', 'attn_probs'))
GROUP BY r.name, r.id, q.id, x.layer, x.pos_id
ORDER BY run, prompt, pos_id, layer;
