-- Pairs as what feeds another pair. state: 1 matches, 2 differs by rounding, 3 cannot be compared,
-- 4 differs by more. Filter on the axis, both runs and the whole place.
CREATE VIEW ancestor_state AS
SELECT
  i.axis AS axis, i.run_id AS run_id, i.other_run_id AS other_run_id, i.key_prompt_id AS prompt_id,
  i.side AS side, i.phase_id AS phase_id, i.key_pos_id AS pos_id, i.key_layer AS layer,
  i.key_tensor_id AS tensor_id, i.rel_l2 AS rel_l2,
  CASE WHEN i.status = 'MATCH' THEN 1 WHEN i.class = 'ROUNDING' THEN 2
       WHEN i.status = 'INCOMPARABLE' THEN 3 ELSE 4 END AS state
FROM comparison_classed i
WHERE i.compared OR i.fails;
