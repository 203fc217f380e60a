-- What a run's comparisons amount to: one row per run, prompt, status, class, scope and cause, with
-- how many there are and, of those with a cause, which is the first in forward order. Status UNMET
-- counts planned rows that are not there, LOST how many are fewer than the run says it wrote; every
-- run has one row of status RUN, so that a run without comparisons is not lost.
-- The rows of kept_tally stand for those of a run that was judged; of other runs they are worked out.
CREATE VIEW tally AS
SELECT
  k.run_id AS run_id, r.name AS run, k.prompt_id AS prompt_id, k.status AS status,
  k.class AS class, k.scope AS scope, k.cause AS cause, k.count AS count,
  k.elsewhere AS elsewhere, k.forward_layer AS forward_layer, k.layer AS layer,
  k.tensor_id AS tensor_id, k.name_id AS name_id, k.pos_id AS pos_id, k.token_id AS token_id,
  k.report_line AS report_line
FROM run r
JOIN kept_tally k ON k.run_id = r.id
UNION ALL
SELECT
  u.run_id, u.run, u.prompt_id, u.status, u.class, u.scope, u.cause, u.count, u.elsewhere,
  u.forward_layer, u.layer, u.tensor_id, u.name_id, u.pos_id, u.token_id, u.report_line
FROM unkept_tally u;
