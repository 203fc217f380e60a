-- Decode-side rows without a partner: MISSING where prefill traced the last position of its prompt,
-- DECODE_ONLY elsewhere.
CREATE VIEW pair_decode_only AS
SELECT
  r.id AS run_id, r.name AS run, d.prompt_id AS prompt_id,
  d.token_id AS token_id, d.logical_tok_idx AS logical_tok_idx,
  d.pos_id AS pos_id, d.layer AS layer, d.tensor_id AS tensor_id, d.name_id AS name_id,
  d.hash AS decode_hash,
  CASE WHEN EXISTS (
    SELECT 1 FROM trace_row x
    WHERE x.run_id = d.run_id AND x.prompt_id = d.prompt_id AND x.side = 0 AND x.pos_id = d.pos_id
      AND x.phase_id = (SELECT id FROM phase WHERE name = 'prefill_last'))
  THEN 'MISSING' ELSE 'DECODE_ONLY' END AS status,
  EXISTS (
    SELECT 1 FROM trace_row x
    WHERE x.run_id = d.run_id AND x.prompt_id = d.prompt_id AND x.side = 0 AND x.pos_id >= 0
      AND x.pos_id <> d.pos_id AND x.layer = d.layer AND x.tensor_id = d.tensor_id) AS elsewhere
FROM run r
JOIN trace_row d ON d.run_id = r.id AND d.side = 1 AND +d.pos_id >= 0
WHERE NOT EXISTS (
    SELECT 1 FROM trace_row p
    WHERE p.run_id = d.run_id AND p.prompt_id = d.prompt_id AND p.side = 0 AND p.pos_id = d.pos_id
      AND p.layer = d.layer AND p.tensor_id = d.tensor_id
      AND p.token_id IS d.token_id AND p.logical_tok_idx IS d.logical_tok_idx)
  AND NOT EXISTS (
    SELECT 1 FROM trace_row x
    WHERE x.run_id = d.run_id AND x.prompt_id = d.prompt_id AND x.side = 1 AND x.pos_id = d.pos_id
      AND x.layer = d.layer AND x.tensor_id = d.tensor_id
      AND x.token_id IS d.token_id AND x.logical_tok_idx IS d.logical_tok_idx
      AND (x.phase_id, x.step, x.name_id, x.occurrence)
        < (d.phase_id, d.step, d.name_id, d.occurrence));
