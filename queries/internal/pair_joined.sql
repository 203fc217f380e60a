-- One row per (prefill row, decode row) of the same run, prompt, token, position, layer and tensor.
-- Where a side has several rows for one token, the first by key stands for them and `ambiguous`
-- says whether they differ. A plain join, so that a filter on run or run_id reaches the key.
CREATE VIEW pair_joined AS
SELECT
  r.id AS run_id, r.name AS run, r.mode AS mode, r.dtype AS dtype,
  r.hash_algo AS hash_algo,
  p.prompt_id AS prompt_id, p.token_id AS token_id, p.logical_tok_idx AS logical_tok_idx,
  p.pos_id AS pos_id, p.layer AS layer, p.tensor_id AS tensor_id, p.name_id AS name_id,
  p.hash AS prefill_hash, d.hash AS decode_hash,
  p.vector_id AS prefill_vector, d.vector_id AS decode_vector,
  p.nan AS prefill_nan, p.inf AS prefill_inf, d.nan AS decode_nan, d.inf AS decode_inf,
  p.n AS prefill_n, d.n AS decode_n,
  EXISTS (
    SELECT 1 FROM trace_row x
    WHERE x.run_id = p.run_id AND x.prompt_id = p.prompt_id AND x.side = 0 AND x.pos_id = p.pos_id
      AND x.layer = p.layer AND x.tensor_id = p.tensor_id
      AND (x.phase_id, x.step, x.name_id, x.occurrence)
        > (p.phase_id, p.step, p.name_id, p.occurrence)
      AND x.token_id IS p.token_id AND x.logical_tok_idx IS p.logical_tok_idx
      AND ((x.n, x.hash, x.min, x.max, x.mean, x.abs_sum, x.nan, x.inf, x.nz_count, x.flags & 1)
             IS NOT (p.n, p.hash, p.min, p.max, p.mean, p.abs_sum, p.nan, p.inf, p.nz_count, p.flags & 1)
           OR (SELECT data FROM sample WHERE id = x.vector_id)
             IS NOT (SELECT data FROM sample WHERE id = p.vector_id))
  ) OR EXISTS (
    SELECT 1 FROM trace_row x
    WHERE x.run_id = d.run_id AND x.prompt_id = d.prompt_id AND x.side = 1 AND x.pos_id = d.pos_id
      AND x.layer = d.layer AND x.tensor_id = d.tensor_id
      AND (x.phase_id, x.step, x.name_id, x.occurrence)
        > (d.phase_id, d.step, d.name_id, d.occurrence)
      AND x.token_id IS d.token_id AND x.logical_tok_idx IS d.logical_tok_idx
      AND ((x.n, x.hash, x.min, x.max, x.mean, x.abs_sum, x.nan, x.inf, x.nz_count, x.flags & 1)
             IS NOT (d.n, d.hash, d.min, d.max, d.mean, d.abs_sum, d.nan, d.inf, d.nz_count, d.flags & 1)
           OR (SELECT data FROM sample WHERE id = x.vector_id)
             IS NOT (SELECT data FROM sample WHERE id = d.vector_id))
  ) AS ambiguous,
  coalesce(p.nan > 0, 0) OR coalesce(p.inf > 0, 0) OR (p.flags & 1)
    OR coalesce(d.nan > 0, 0) OR coalesce(d.inf > 0, 0) OR (d.flags & 1) AS nonfinite,
  p.hash IS NOT NULL AND d.hash IS NOT NULL AND p.n IS NOT NULL AND d.n IS p.n AS by_hash,
  p.hash IS d.hash AS hash_equal,
  -- the last block traced here: what feeds the tensors after the stack
  (SELECT max(x.layer) FROM trace_row x JOIN tensor t ON t.id = x.tensor_id
   WHERE x.run_id = p.run_id AND x.prompt_id = p.prompt_id AND x.side = 0 AND x.pos_id = p.pos_id
     AND t.stage = 'layer') AS last_layer,
  -- 1 equal, 0 different, NULL when a sample is missing or the lengths differ
  (SELECT a.data = b.data FROM sample a, sample b
   WHERE a.id = p.vector_id AND b.id = d.vector_id AND a.n = b.n) AS sample_equal
FROM run r
JOIN trace_row p ON p.run_id = r.id AND p.side = 0 AND +p.pos_id >= 0
JOIN trace_row d ON d.run_id = p.run_id AND d.prompt_id = p.prompt_id AND d.side = 1
  AND d.pos_id = p.pos_id AND d.layer = p.layer AND d.tensor_id = p.tensor_id
  AND d.token_id IS p.token_id AND d.logical_tok_idx IS p.logical_tok_idx
WHERE NOT EXISTS (
    SELECT 1 FROM trace_row x
    WHERE x.run_id = p.run_id AND x.prompt_id = p.prompt_id AND x.side = 0 AND x.pos_id = p.pos_id
      AND x.layer = p.layer AND x.tensor_id = p.tensor_id
      AND x.token_id IS p.token_id AND x.logical_tok_idx IS p.logical_tok_idx
      AND (x.phase_id, x.step, x.name_id, x.occurrence)
        < (p.phase_id, p.step, p.name_id, p.occurrence))
  AND NOT EXISTS (
    SELECT 1 FROM trace_row x
    WHERE x.run_id = d.run_id AND x.prompt_id = d.prompt_id AND x.side = 1 AND x.pos_id = d.pos_id
      AND x.layer = d.layer AND x.tensor_id = d.tensor_id
      AND x.token_id IS d.token_id AND x.logical_tok_idx IS d.logical_tok_idx
      AND (x.phase_id, x.step, x.name_id, x.occurrence)
        < (d.phase_id, d.step, d.name_id, d.occurrence));
