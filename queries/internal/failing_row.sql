-- The two rows of the first pair beyond rounding of a run and prompt, else, in a run whose rows are to be equal, of
-- the first that differs (`equal`: 1). One row per side, 0 prefill and 1 decode: its own row, and that of the other
-- side (other_*). Columns of a row that is missing are NULL. Filter on the run.
CREATE VIEW failing_row AS
SELECT
  v.run_id AS run_id, v.run AS run, v.prompt_id AS prompt_id, v.prompt AS prompt, v.equal AS equal, v.strict AS strict,
  v.pos_id AS pos_id, v.token_id AS token_id, v.layer AS layer, v.tensor AS tensor, t.id AS tensor_id, t.name AS point,
  t.switch_on IS NOT NULL AS turns,  -- 1: RoPE has turned it
  h.column1 AS side, h.column2 AS side_name, h.column3 AS other_side_name,
  w.hash AS hash, w.n AS n, w.min AS min, w.max AS max, w.mean AS mean, w.abs_sum AS abs_sum, w.nan AS nan, w.inf AS inf,
  w.nz_count AS nz, w.sketch_id AS sketch_id,
  (SELECT e.data FROM sample e WHERE e.id = w.sample_id) AS sample,
  o.hash AS other_hash, o.n AS other_n, o.min AS other_min, o.max AS other_max, o.mean AS other_mean,
  o.abs_sum AS other_abs_sum, o.nan AS other_nan, o.inf AS other_inf, o.nz_count AS other_nz,
  o.sketch_id AS other_sketch_id,
  (SELECT e.data FROM sample e WHERE e.id = o.sample_id) AS other_sample,  -- leading values, 4 bytes each
  ifnull(w.nan, 0) + ifnull(w.inf, 0) + ifnull(o.nan, 0) + ifnull(o.inf, 0) = 0 AS finite
FROM (
  SELECT
    r.id AS run_id, r.name AS run, q.id AS prompt_id, q.name AS prompt, v.numeric_first_fail IS NULL AS equal,
    r.mode IS 'batch_invariant' AS strict,
    CASE WHEN v.numeric_first_fail IS NULL THEN ifnull(v.strict_pos_id, -1) ELSE ifnull(v.numeric_pos_id, -1) END AS pos_id,
    CASE WHEN v.numeric_first_fail IS NULL THEN v.strict_token_id ELSE v.numeric_token_id END AS token_id,
    CASE WHEN v.numeric_first_fail IS NULL THEN v.strict_layer ELSE v.numeric_layer END AS layer,
    CASE WHEN v.numeric_first_fail IS NULL THEN v.strict_tensor ELSE v.numeric_tensor END AS tensor
  FROM run r
  CROSS JOIN verdict v ON v.run_id = r.id
  JOIN prompt q ON q.run_id = r.id AND q.name = v.item
  WHERE v.level = 'prompt'
    AND (v.numeric_first_fail IS NOT NULL OR r.mode = 'batch_invariant' AND v.strict_first_fail IS NOT NULL)
) v
CROSS JOIN (VALUES (0, 'prefill', 'decode'), (1, 'decode', 'prefill')) h
CROSS JOIN tensor_name m ON m.name = v.tensor
CROSS JOIN tensor t ON t.id = m.tensor_id
LEFT JOIN trace_row w ON w.run_id = v.run_id AND w.prompt_id = v.prompt_id AND w.side = h.column1
  AND w.pos_id = v.pos_id AND w.layer = v.layer AND w.tensor_id = t.id AND w.token_id IS v.token_id AND w.stands
LEFT JOIN trace_row o ON o.run_id = v.run_id AND o.prompt_id = v.prompt_id AND o.side = 1 - h.column1
  AND o.pos_id = v.pos_id AND o.layer = v.layer AND o.tensor_id = t.id AND o.token_id IS v.token_id AND o.stands;
