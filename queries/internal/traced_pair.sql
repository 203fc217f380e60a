-- Trace points that both sides traced for the same token at a position, whatever their values. +: else
-- SQLite tries each way in which columns of three tables may be equal, and prepares that longer than all else.
CREATE VIEW traced_pair AS
SELECT
  p.run_id AS run_id, p.prompt_id AS prompt_id, p.pos_id AS pos_id, p.layer AS layer,
  p.tensor_id AS tensor_id
FROM trace_row p
JOIN trace_row d ON d.run_id = +p.run_id AND d.prompt_id = +p.prompt_id AND d.side = 1
  AND d.pos_id = +p.pos_id AND d.layer = +p.layer AND d.tensor_id = +p.tensor_id
  AND d.token_id IS p.token_id AND d.logical_tok_idx IS p.logical_tok_idx
WHERE p.side = 0;
