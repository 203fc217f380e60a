-- Per run and prompt the place of the first pair beyond rounding, else, in a run whose rows are to be
-- equal, of the first that differs (`equal`: 1); and the rows that stand there: `x` of prefill, `y` of
-- decode, the first of each side.
CREATE VIEW failing_place AS
SELECT
  v.run_id AS run_id, v.run AS run, v.prompt_id AS prompt_id, v.pos_id AS pos_id, v.token_id AS token_id,
  v.layer AS layer, v.tensor_id AS tensor_id, v.name_id AS name_id, v.equal AS equal,
  x.hash AS x_hash, x.n AS x_n, x.min AS x_min, x.max AS x_max, x.mean AS x_mean, x.abs_sum AS x_abs,
  x.nan AS x_nan, x.inf AS x_inf, x.nz_count AS x_nz, x.vector_id AS x_vector,
  y.hash AS y_hash, y.n AS y_n, y.min AS y_min, y.max AS y_max, y.mean AS y_mean, y.abs_sum AS y_abs,
  y.nan AS y_nan, y.inf AS y_inf, y.nz_count AS y_nz, y.vector_id AS y_vector,
  ifnull(x.nan, 0) + ifnull(x.inf, 0) + ifnull(y.nan, 0) + ifnull(y.inf, 0) = 0 AS finite
FROM (
  -- DISTINCT, as all rows are: else SQLite copies these cases to each of the many places where a finding names them
  SELECT DISTINCT
    w.run_id, w.run, w.prompt_id, w.divergent_cause IS NULL AS equal,
    CASE WHEN w.divergent_cause IS NULL THEN w.fail_prompt_id ELSE w.divergent_prompt_id END AS of_prompt_id,
    CASE WHEN w.divergent_cause IS NULL THEN w.fail_pos_id ELSE w.divergent_pos_id END AS pos_id,
    CASE WHEN w.divergent_cause IS NULL THEN w.fail_token_id ELSE w.divergent_token_id END AS token_id,
    CASE WHEN w.divergent_cause IS NULL THEN w.fail_layer ELSE w.divergent_layer END AS layer,
    CASE WHEN w.divergent_cause IS NULL THEN w.fail_tensor_id ELSE w.divergent_tensor_id END AS tensor_id,
    CASE WHEN w.divergent_cause IS NULL THEN w.fail_name_id ELSE w.divergent_name_id END AS name_id
  FROM verdict_row w
  WHERE w.prompt_id > 0
    AND CASE WHEN w.divergent_cause IS NOT NULL THEN 1 WHEN w.fail_cause IS NULL THEN 0
        ELSE (SELECT r.mode FROM run r WHERE r.id = w.run_id) IS 'batch_invariant' END
) v
LEFT JOIN trace_row x ON x.run_id = v.run_id AND x.prompt_id = v.of_prompt_id AND x.side = 0
  AND x.pos_id = v.pos_id AND x.layer = v.layer AND x.tensor_id = v.tensor_id
  AND x.nth = (SELECT min(e.nth) FROM trace_row e
    WHERE e.run_id = x.run_id AND e.prompt_id = x.prompt_id AND e.side = 0 AND e.pos_id = x.pos_id
      AND e.layer = x.layer AND e.tensor_id = x.tensor_id AND e.token_id IS v.token_id)
LEFT JOIN trace_row y ON y.run_id = v.run_id AND y.prompt_id = v.of_prompt_id AND y.side = 1
  AND y.pos_id = v.pos_id AND y.layer = v.layer AND y.tensor_id = v.tensor_id
  AND y.nth = (SELECT min(e.nth) FROM trace_row e
    WHERE e.run_id = y.run_id AND e.prompt_id = y.prompt_id AND e.side = 1 AND e.pos_id = y.pos_id
      AND e.layer = y.layer AND e.tensor_id = y.tensor_id AND e.token_id IS v.token_id);
