-- prefill_last rows without a partner on the decode side: MISSING.
CREATE VIEW pair_prefill_only AS
SELECT
  r.id AS run_id, r.name AS run, p.prompt_id AS prompt_id,
  p.token_id AS token_id, p.logical_tok_idx AS logical_tok_idx,
  p.pos_id AS pos_id, p.layer AS layer, p.tensor_id AS tensor_id, p.name_id AS name_id,
  p.hash AS prefill_hash, 'MISSING' AS status,
  EXISTS (
    SELECT 1 FROM trace_row x
    WHERE x.run_id = p.run_id AND x.prompt_id = p.prompt_id AND x.side = 1 AND x.pos_id >= 0
      AND x.pos_id <> p.pos_id AND x.layer = p.layer AND x.tensor_id = p.tensor_id) AS elsewhere
FROM run r
JOIN trace_row p ON p.run_id = r.id AND p.side = 0 AND +p.pos_id >= 0
WHERE p.phase_id = (SELECT id FROM phase WHERE name = 'prefill_last')
  AND NOT EXISTS (
    SELECT 1 FROM trace_row d
    WHERE d.run_id = p.run_id AND d.prompt_id = p.prompt_id AND d.side = 1 AND d.pos_id = p.pos_id
      AND d.layer = p.layer AND d.tensor_id = p.tensor_id
      AND d.token_id IS p.token_id AND d.logical_tok_idx IS p.logical_tok_idx)
  AND NOT EXISTS (
    SELECT 1 FROM trace_row x
    WHERE x.run_id = p.run_id AND x.prompt_id = p.prompt_id AND x.side = 0 AND x.pos_id = p.pos_id
      AND x.layer = p.layer AND x.tensor_id = p.tensor_id AND x.phase_id = p.phase_id
      AND x.token_id IS p.token_id AND x.logical_tok_idx IS p.logical_tok_idx
      AND (x.step, x.name_id, x.occurrence) < (p.step, p.name_id, p.occurrence));
