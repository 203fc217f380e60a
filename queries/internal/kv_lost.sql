-- One row per prompt, layer and position of attention where something had to pair and nothing of Q,
-- K, V, the cache or the scores did: a layer that one side lost altogether.
CREATE VIEW kv_lost AS
SELECT
  r.name AS run, r.id AS run_id, r.mode AS mode, x.prompt_id AS prompt_id, x.layer AS layer,
  x.pos_id AS pos_id
FROM run r
JOIN trace_row x ON x.run_id = r.id AND x.side IN (0, 1) AND +x.pos_id >= 0
JOIN traced_position p ON p.run_id = x.run_id AND p.prompt_id = x.prompt_id AND p.side = 0
  AND p.pos_id = x.pos_id AND p.demands
JOIN tensor t ON t.id = x.tensor_id
WHERE t.name IN ('q_post_rope', 'k_post_rope', 'v_proj', 'k_cache', 'v_cache', 'k_cache_rows', 'v_cache_rows',
                 'attn_scores', 'attn_probs')
  AND NOT EXISTS (
    SELECT 1 FROM traced_pair b JOIN tensor k ON k.id = b.tensor_id
    WHERE b.run_id = x.run_id AND b.prompt_id = x.prompt_id AND b.pos_id = x.pos_id AND b.layer = x.layer
      AND k.name IN ('q_post_rope', 'k_post_rope', 'v_proj', 'k_cache', 'v_cache', 'k_cache_rows', 'v_cache_rows',
                     'attn_scores', 'attn_probs'))
GROUP BY r.name, r.id, r.mode, x.prompt_id, x.layer, x.pos_id;
