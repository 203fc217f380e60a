-- tally of the runs whose tally is kept.
CREATE VIEW kept_tally_row AS
SELECT
  k.run_id AS run_id, r.name AS run, k.prompt_id AS prompt_id, k.status AS status,
  k.class AS class, k.scope AS scope, k.cause AS cause, k.count AS count, k.pairs AS pairs,
  k.claimed AS claimed,
  k.elsewhere AS elsewhere, k.forward_layer AS forward_layer, k.layer AS layer,
  k.tensor_id AS tensor_id, k.name_id AS name_id, k.pos_id AS pos_id, k.token_id AS token_id,
  k.report_line AS report_line
FROM run r
JOIN kept_tally k ON k.run_id = r.id;
