-- How far rows of a run differ between its phases, beside the worst of their inputs: what calibration measures.
-- Rows of few values are left out; input_rel_l2 is NULL unless every input was traced.
-- :run a run
SELECT t.name AS tensor, s.key_layer AS layer, nullif(s.key_pos_id, -1) AS pos_id, s.rel_l2,
       nullif((
         SELECT max(ifnull((
             SELECT i.rel_l2 FROM comparison_graded i
             WHERE i.run_id = s.run_id AND i.other_run_id = s.other_run_id
               AND i.key_prompt_id = s.key_prompt_id AND i.side = s.side
               AND i.key_pos_id = s.key_pos_id AND i.key_tensor_id = e.from_id
               AND i.key_layer = CASE e.layer WHEN 'same' THEN s.key_layer
                 WHEN 'previous' THEN s.key_layer - 1 ELSE s.last_layer END),
           CASE e.kind WHEN 'input' THEN 1e300 END))
         FROM edge e WHERE e.to_id = s.key_tensor_id AND e.kind <> 'alias'), 1e300) AS input_rel_l2,
       t.ord AS ord, s.class AS class
FROM comparison_cause s
JOIN tensor t ON t.id = s.key_tensor_id
WHERE s.run_id = (SELECT id FROM run WHERE name = :run) AND s.other_run_id = s.run_id
  AND s.side = 0 AND s.key_pos_id >= 0 AND s.status = 'DRIFT' AND s.steady;
