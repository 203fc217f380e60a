-- Layers where prefill and decode do not attend over the same keys and values, or where it matters.
-- :run () a run; all of them without
SELECT k.run, k.prompt, k.layer, k.pos_id, k.q_match, k.k_match, k.v_match, k.cache_match, k.cache_rows_match,
       k.attn_out_class, k.interpretation, k.status
FROM kv_alignment k
WHERE (k.run = :run OR :run IS NULL) AND (k.interpretation <> 'ALIGNED' OR k.status <> 'PASS')
ORDER BY k.run_id, k.prompt, k.pos_id, k.layer;
