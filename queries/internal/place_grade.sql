-- The pairs of a run's places, prompt by prompt and position by position, of any layer and trace point:
-- whether one is beyond rounding, or clean; neither of a pair that nothing decides. Filter on run, layer
-- and tensor: what is summed over them is asked for by one place.
CREATE VIEW place_grade AS
SELECT
  s.run_id AS run_id, s.key_layer AS layer, s.key_tensor_id AS tensor_id, s.key_pos_id AS pos_id,
  s.grade >= 3 AS bad, s.grade <= 1 AS clean
FROM traced_position z
CROSS JOIN comparison_classed s ON s.run_id = z.run_id AND s.key_prompt_id = z.prompt_id AND s.key_pos_id = z.pos_id
WHERE z.side = 0 AND s.axis = 'phases' AND s.other_run_id = s.run_id AND s.side = 0 AND s.compared;
