-- One row per run and trace point whose rows differ between the phases: how many pairs, and the one that is
-- furthest apart for its tolerance. Name the run: WHERE run = '...' or run_id = ...
CREATE VIEW drift AS
SELECT
  d.run AS run,                                        -- run.name
  t.name AS tensor,                                    -- canonical
  d.differ AS differ,                                  -- pairs of it that are not MATCH
  d.rounding AS rounding,                              -- of those, DRIFT within tolerance or EXPLAINED
  d.divergent AS divergent,                            -- DRIFT beyond that
  d.nonfinite AS nonfinite,                            -- NaN or inf
  d.rel_l2 AS rel_l2,                                  -- of the furthest apart: distance over its norm; NULL: nothing measures any
  d.tolerance AS tolerance,                            -- of that: what rounding may amount to; NULL: not known
  (SELECT name FROM prompt WHERE id = d.prompt_id) AS prompt, -- of that
  d.layer AS layer,                                    -- of that
  d.pos_id AS pos_id,                                  -- of that
  t.ord AS ord,                                        -- forward order
  d.run_id AS run_id                                   -- run.id
FROM (
  SELECT
    s.run_id AS run_id, s.run AS run, s.key_tensor_id AS tensor_id, count(*) AS differ,
    sum(s.status = 'DRIFT' AND s.grade = 1) AS rounding, sum(s.class IS 'DIVERGENT') AS divergent,
    sum(s.status = 'NONFINITE') AS nonfinite,
    -- SQLite takes the other columns from the row that has the maximum, and works a distance out wherever
    -- it is named
    max(s.rel_l2 / ifnull(nullif(s.tolerance, 0), 1)) AS far,
    s.rel_l2 AS rel_l2, s.tolerance AS tolerance, s.key_prompt_id AS prompt_id, s.key_layer AS layer,
    nullif(s.key_pos_id, -1) AS pos_id
  FROM comparison_graded s
  WHERE s.other_run_id = s.run_id AND s.side = 0 AND s.compared AND s.status <> 'MATCH'
  GROUP BY s.run_id, s.run, s.key_tensor_id
) d
CROSS JOIN tensor t ON t.id = d.tensor_id;
