-- comparison_placed where nobody asks for an origin, which takes longer to prepare than all else.
CREATE VIEW no_placed_row AS
SELECT
  z.name AS axis, r.id AS run_id, r.id AS other_run_id, NULL AS key_prompt_id, NULL AS phase_id, NULL AS side,
  NULL AS key_pos_id, NULL AS key_layer, NULL AS key_tensor_id, NULL AS origin, NULL AS numeric_origin
FROM axis z
CROSS JOIN run r
WHERE 0;
