-- Per run, layer and trace point the first position at which a pair is beyond rounding, whatever the
-- prompt, where all pairs before it are clean and none after it is. Filter on all three.
CREATE VIEW place_onset AS
SELECT
  g.run_id AS run_id, g.key_layer AS layer, g.key_tensor_id AS tensor_id,
  max(CASE WHEN g.bad THEN -1 ELSE g.key_pos_id END) AS last_clean,
  min(CASE WHEN g.bad THEN g.key_pos_id END) AS first_bad
FROM (
  SELECT s.run_id, s.key_layer, s.key_tensor_id, s.key_pos_id, s.grade >= 3 AS bad, s.grade <= 1 AS clean
  FROM traced_position z
  CROSS JOIN comparison_classed s ON s.run_id = z.run_id AND s.key_prompt_id = z.prompt_id AND s.key_pos_id = z.pos_id
  WHERE z.side = 0 AND s.axis = 'phases' AND s.other_run_id = s.run_id AND s.side = 0 AND s.compared
) g
GROUP BY g.run_id, g.key_layer, g.key_tensor_id
HAVING max(CASE WHEN g.bad THEN -1 ELSE g.key_pos_id END) BETWEEN 0 AND min(CASE WHEN g.bad THEN g.key_pos_id END) - 1
  -- all are known, and there is more than one on either side
  AND min(coalesce(g.bad OR g.clean, 0)) AND count(DISTINCT CASE WHEN g.bad THEN g.key_pos_id END) > 1
  AND count(DISTINCT CASE WHEN g.clean THEN g.key_pos_id END) > 1;
