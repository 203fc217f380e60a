-- Pairs as what feeds another pair. state: 1 matches, 2 differs by rounding, 3 cannot be compared,
-- 4 differs by more. Filter on the whole place.
CREATE VIEW ancestor_state AS
SELECT
  i.run_id AS run_id, i.key_prompt_id AS prompt_id, i.key_pos_id AS pos_id, i.key_layer AS layer,
  i.key_tensor_id AS tensor_id, i.rel_l2 AS rel_l2,
  CASE WHEN i.status = 'MATCH' THEN 1 WHEN i.class = 'ROUNDING' THEN 2
       WHEN i.status = 'INCOMPARABLE' THEN 3 ELSE 4 END AS state
FROM comparison_classed i
WHERE i.axis = 'phases' AND i.other_run_id = i.run_id AND i.side IN (0, 1) AND (i.compared OR i.fails);
