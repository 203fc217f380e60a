-- Whether values first part ways at a pair, rounding inputs counting as clean. Filter on the place.
CREATE VIEW place_origin AS
SELECT
  i.run_id AS run_id, i.key_prompt_id AS prompt_id, i.key_pos_id AS pos_id, i.key_layer AS layer,
  i.key_tensor_id AS tensor_id,
  CASE i.worst_input WHEN 1 THEN 'ORIGIN' WHEN 2 THEN 'ORIGIN' WHEN 4 THEN 'PROPAGATED'
                     ELSE 'UNSAMPLED' END AS numeric_origin
FROM comparison_origin i
WHERE i.side = 0 AND i.fails;
