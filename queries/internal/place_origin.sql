-- Whether values first part ways at a pair, rounding inputs counting as clean, and between what and
-- what. Filter on the place.
CREATE VIEW place_origin AS
SELECT
  i.run_id AS run_id, i.key_prompt_id AS prompt_id, i.key_pos_id AS pos_id, i.key_layer AS layer,
  i.key_tensor_id AS tensor_id, i.token_id AS token_id, i.origin AS origin, i.numeric_origin AS numeric_origin,
  i.segment AS segment, i.untraced_layers AS untraced_layers
FROM comparison_placed i
WHERE i.axis = 'phases' AND i.other_run_id = i.run_id AND i.side IN (0, 1, 2) AND i.fails;
