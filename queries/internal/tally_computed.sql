-- tally, worked out from the rows of a run: see there.
CREATE VIEW tally_computed AS
SELECT
  f.run_id AS run_id, f.run AS run, f.prompt_id AS prompt_id, f.status AS status, f.class AS class,
  f.scope AS scope, f.cause AS cause, f.total AS count, f.anywhere AS elsewhere,
  f.forward_layer AS forward_layer, CASE WHEN f.cause IS NOT NULL THEN f.layer END AS layer,
  f.tensor_id AS tensor_id, f.name_id AS name_id,
  CASE WHEN f.cause IS NOT NULL THEN f.pos_id END AS pos_id,
  CASE WHEN f.cause IS NOT NULL THEN f.token_id END AS token_id, f.report_line AS report_line
FROM (
  SELECT
    g.*,
    sum(g.count) OVER alike AS total,
    max(g.elsewhere) OVER alike AS anywhere,
    -- a row of tally_by_place is one layer and name, or one line
    g.layer IS first_value(g.layer) OVER alike AND g.name_id IS first_value(g.name_id) OVER alike
      AND g.report_line IS first_value(g.report_line) OVER alike AS is_first
  FROM tally_by_place g
  WINDOW alike AS (
    PARTITION BY g.run_id, g.prompt_id, g.status, g.cause, g.class, g.scope, g.run
    ORDER BY g.forward_layer, g.tensor_id IS NULL, g.tensor_id, g.layer, g.name_id, g.report_line
    ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
) f
WHERE f.is_first;
