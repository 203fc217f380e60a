-- tally of the runs whose tally is not kept.
CREATE VIEW unkept_tally AS
SELECT
  c.run_id AS run_id, c.run AS run, c.prompt_id AS prompt_id, c.status AS status,
  c.class AS class, c.scope AS scope, c.cause AS cause, c.count AS count,
  c.elsewhere AS elsewhere, c.forward_layer AS forward_layer, c.layer AS layer,
  c.tensor_id AS tensor_id, c.name_id AS name_id, c.pos_id AS pos_id, c.token_id AS token_id,
  c.report_line AS report_line
FROM tally_computed c
UNION ALL
SELECT
  r.id, r.name, l.prompt_id, 'UNMET', NULL, NULL, NULL, count(*), 0,
  NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM unjudged_run u
JOIN run r ON r.id = u.run_id
JOIN plan l ON l.run_id = r.id
WHERE NOT EXISTS (
  SELECT 1 FROM trace_row x
  WHERE x.run_id = l.run_id AND x.prompt_id = l.prompt_id AND x.side = l.side
    AND x.layer = l.layer AND x.tensor_id = l.tensor_id)
GROUP BY r.id, r.name, l.prompt_id
UNION ALL
SELECT
  r.id, r.name, 0, 'LOST', NULL, NULL, NULL, l.count, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM unjudged_run u
JOIN run r ON r.id = u.run_id
JOIN rows_lost l ON l.run_id = r.id
WHERE l.count > 0
UNION ALL
SELECT
  r.id, r.name, 0, 'RUN', NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM unjudged_run u
JOIN run r ON r.id = u.run_id;
