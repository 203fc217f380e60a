-- Pairs of the phases that differ, of rows long enough: by how much, and by how much the worst of their direct inputs does;
-- input_rel_l2 is NULL unless all of these were traced. What calibration measures. Filter on the run.
CREATE VIEW drift_gain AS
SELECT
  s.run_id AS run_id, s.key_tensor_id AS tensor_id, s.key_layer AS layer, s.rel_l2 AS rel_l2,
  nullif((
    SELECT max(ifnull((
        SELECT i.rel_l2 FROM comparison_graded i
        WHERE i.run_id = s.run_id AND i.other_run_id = s.other_run_id
          AND i.key_prompt_id = s.key_prompt_id AND i.side = s.side AND i.key_pos_id = s.key_pos_id
          AND i.key_layer = CASE e.layer WHEN 'same' THEN s.key_layer WHEN 'previous' THEN s.key_layer - 1 ELSE s.last_layer END
          AND i.key_tensor_id = e.from_id),
      CASE e.kind WHEN 'input' THEN 1e300 END))
    FROM edge e WHERE e.to_id = s.key_tensor_id AND e.kind <> 'alias'), 1e300) AS input_rel_l2
FROM comparison_cause s
WHERE s.other_run_id = s.run_id AND s.side = 0 AND s.key_pos_id >= 0 AND s.status = 'DRIFT'
  AND s.steady;
