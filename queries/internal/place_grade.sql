-- Pairs of a run with what onsets go by: their position, the length of their prompt, and whether they are
-- beyond rounding (`bad`; where rows are to be equal: whether they differ), clean, or neither. Filter on
-- run, layer and trace point.
CREATE VIEW place_grade AS
SELECT
  s.run_id AS run_id, s.key_layer AS layer, s.key_tensor_id AS tensor_id, s.key_pos_id AS pos_id,
  q.n_tokens AS n_tokens,
  s.grade >= CASE r.mode WHEN 'batch_invariant' THEN 1 ELSE 3 END AS bad,
  s.grade <= CASE r.mode WHEN 'batch_invariant' THEN 0 ELSE 1 END AS clean
FROM traced_position z
CROSS JOIN run r ON r.id = z.run_id
CROSS JOIN prompt q ON q.id = z.prompt_id
CROSS JOIN comparison_classed s ON s.run_id = z.run_id AND s.key_prompt_id = z.prompt_id AND s.key_pos_id = z.pos_id
WHERE z.side = 0 AND s.axis = 'phases' AND s.other_run_id = s.run_id AND s.side = 0 AND s.compared;
