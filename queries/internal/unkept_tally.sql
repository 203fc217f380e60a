-- tally of the runs whose tally is not kept, worked out from their rows. One view, for SQLite reads
-- all that is below a view anew to learn its columns.
CREATE VIEW unkept_tally AS
SELECT
  f.run_id AS run_id, f.run AS run, f.prompt_id AS prompt_id, f.status AS status, f.class AS class,
  f.scope AS scope, f.cause AS cause, f.total AS count, f.compared AS pairs, f.claims AS claimed,
  f.anywhere AS elsewhere,
  f.forward_layer AS forward_layer, CASE WHEN f.cause IS NOT NULL THEN f.layer END AS layer,
  f.tensor_id AS tensor_id, f.name_id AS name_id,
  CASE WHEN f.cause IS NOT NULL THEN f.pos_id END AS pos_id,
  CASE WHEN f.cause IS NOT NULL THEN f.token_id END AS token_id, f.report_line AS report_line
FROM (
  SELECT
    g.*,
    sum(g.count) OVER alike AS total,
    sum(g.pairs) OVER alike AS compared,
    sum(g.claimed) OVER alike AS claims,
    max(g.elsewhere) OVER alike AS anywhere,
    row_number() OVER alike AS nth
  FROM (
    -- Comparisons counted: one row per prompt, status, class, scope and, where there is one, cause,
    -- position and trace point, with the first layer. Grouped by what is cheap to work out again, for
    -- that is done for every group: not by the status's own conditions.
    -- where something is compared, or is not finite
    SELECT
      s.run_id AS run_id, u.run AS run, s.key_prompt_id AS prompt_id, s.status AS status,
      s.class AS class, s.scope AS scope, s.cause AS cause, count(*) AS count, sum(s.compared) AS pairs,
      sum(CASE WHEN s.compared THEN s.claimed ELSE 0 END) AS claimed, sum(s.elsewhere) > 0 AS elsewhere,
      -- SQLite takes layer and token_id from the row that has the minimum
      CASE WHEN s.blamed THEN min(CASE WHEN s.blamed THEN s.forward_layer ELSE 0 END) END AS forward_layer,
      CASE WHEN s.blamed THEN s.tensor_id END AS tensor_id,
      s.key_layer AS layer, s.blamed_name_id AS name_id,
      s.key_pos_id AS pos_id, s.token_id AS token_id, NULL AS report_line
    FROM unjudged_run u
    CROSS JOIN traced_position z ON z.run_id = u.run_id
    CROSS JOIN comparison_graded s
    WHERE NOT EXISTS (
        SELECT 1 FROM plain_position e
        WHERE e.run_id = z.run_id AND e.prompt_id = z.prompt_id AND e.side = z.side AND e.pos_id = z.pos_id)
      -- nor known ones where each row of decode has its partner, which stands for it: both sides come in the order of
      -- their key, so that SQLite merges them and seeks nothing
      AND CASE WHEN z.side = 1 AND z.pos_id >= 0 THEN EXISTS (SELECT 1 FROM (
        SELECT y.layer, y.tensor_id, y.nth, y.token_id, y.logical_tok_idx, y.crowded FROM trace_row y
        WHERE y.run_id = z.run_id AND y.prompt_id = z.prompt_id AND y.side = 1 AND y.pos_id = z.pos_id
        EXCEPT
        SELECT x.layer, x.tensor_id, x.nth, x.token_id, x.logical_tok_idx, 0 FROM trace_row x
        WHERE x.run_id = z.run_id AND x.prompt_id = z.prompt_id AND x.side = 0 AND x.pos_id = z.pos_id
        ORDER BY 1, 2, 3 LIMIT 1)) ELSE 1 END
      AND s.axis = 'phases' AND s.run_id = z.run_id AND s.other_run_id = z.run_id
      AND s.key_prompt_id = z.prompt_id AND s.side = z.side AND s.key_pos_id = z.pos_id
    GROUP BY s.run_id, s.key_prompt_id, CASE WHEN s.blamed THEN s.key_pos_id END, s.blamed_name_id,
             CASE WHEN s.blamed AND s.stage <> 'layer' THEN s.key_layer END,
             s.status, s.class, s.scope, s.switched_id, u.run  -- the last is there to be filtered by
    UNION ALL
    -- where only decode traced something, all of it finite
    SELECT
      r.id, r.name, d.prompt_id, 'DECODE_ONLY', NULL, NULL, NULL,
      sum((SELECT count(*) FROM trace_row x
       WHERE x.run_id = d.run_id AND x.prompt_id = d.prompt_id AND x.side = 1 AND x.pos_id = d.pos_id
         AND CASE WHEN x.crowded THEN NOT EXISTS (
           SELECT 1 FROM trace_row e
           WHERE e.run_id = x.run_id AND e.prompt_id = x.prompt_id AND e.side = x.side
             AND e.pos_id = x.pos_id AND e.layer = x.layer AND e.tensor_id = x.tensor_id
             AND (e.phase_id, e.step, e.name_id, e.nth) < (x.phase_id, x.step, x.name_id, x.nth)
             AND e.token_id IS x.token_id AND e.logical_tok_idx IS x.logical_tok_idx) ELSE 1 END)),
      0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM unjudged_run u
    JOIN run r ON r.id = u.run_id
    JOIN plain_position d ON d.run_id = r.id AND d.side = 1 AND d.pos_id >= 0
    GROUP BY r.id, r.name, d.prompt_id
    UNION ALL
    -- what double arithmetic refutes
    SELECT
      r.id, r.name, o.prompt_id, 'REFUTED', NULL, NULL, o.cause, 1, 0, 0, 0, 1000000,
      o.tensor_id, -1, o.name_id, o.pos_id, NULL, NULL
    FROM unjudged_run u
    JOIN run r ON r.id = u.run_id
    JOIN refuted_readout o ON o.run_id = r.id
    UNION ALL
    -- what a report's table lists
    SELECT
      s.run_id AS run_id, u.run AS run, s.prompt_id AS prompt_id, s.status AS status,
      s.class AS class, s.scope AS scope, s.cause AS cause, count(*) AS count, sum(s.compared) AS pairs,
      sum(s.compared) AS claimed, sum(s.elsewhere) > 0 AS elsewhere,
      CASE WHEN s.blamed THEN s.forward_layer END AS forward_layer,
      CASE WHEN s.blamed THEN s.tensor_id END AS tensor_id,
      s.layer AS layer, s.blamed_name_id AS name_id,
      s.pos_id, s.token_id, min(s.report_line)
    FROM unjudged_run u
    CROSS JOIN run_evidence v ON v.run_id = u.run_id
    CROSS JOIN comparison_graded s
    WHERE v.evidence = 'report' AND s.axis = 'phases' AND s.run_id = v.run_id AND s.other_run_id = v.run_id
      AND s.report_line IS NOT NULL
    GROUP BY s.run_id, s.report_line, u.run
  ) g
  LEFT JOIN tensor k ON k.id = g.tensor_id
  WINDOW alike AS (
    PARTITION BY g.run_id, g.prompt_id, g.status, g.cause, g.class, g.scope, g.run
    ORDER BY g.forward_layer, g.tensor_id IS NULL, k.ord,
      k.name, g.layer, g.name_id, g.pos_id, g.report_line
    ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
) f
WHERE f.nth = 1
UNION ALL
SELECT
  r.id, r.name, l.prompt_id, 'UNMET', NULL, NULL, NULL, count(*), 0, 0, 0,
  NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM unjudged_run u
JOIN run r ON r.id = u.run_id
JOIN plan l ON l.run_id = r.id
WHERE NOT EXISTS (
  SELECT 1 FROM trace_row x
  WHERE x.run_id = l.run_id AND x.prompt_id = l.prompt_id AND x.side = l.side
    AND x.layer = l.layer AND x.tensor_id = l.tensor_id
    -- what has no known position is compared with nothing, and what a document states was not traced
    AND x.pos_id >= 0 AND (x.flags & 8) = 0)
GROUP BY r.id, r.name, l.prompt_id
UNION ALL
-- prompts that were announced, and not traced
SELECT
  r.id, r.name, a.prompt_id, 'UNMET', NULL, NULL, NULL, 1, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM unjudged_run u
JOIN run r ON r.id = u.run_id
JOIN announced_prompt a ON a.run_id = r.id
WHERE EXISTS (SELECT 1 FROM trace_row x WHERE x.run_id = r.id AND (x.flags & 8) = 0)
  AND NOT EXISTS (
    SELECT 1 FROM trace_row x WHERE x.run_id = r.id AND x.prompt_id = a.prompt_id AND (x.flags & 8) = 0)
UNION ALL
SELECT
  r.id, r.name, 0, 'LOST', NULL, NULL, NULL, l.count, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM unjudged_run u
JOIN run r ON r.id = u.run_id
JOIN rows_lost l ON l.run_id = r.id
WHERE l.count > 0
UNION ALL
SELECT
  r.id, r.name, 0, 'RUN', NULL, NULL, NULL, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM unjudged_run u
JOIN run r ON r.id = u.run_id;
