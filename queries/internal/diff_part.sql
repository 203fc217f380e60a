-- Two runs held against each other: how many rows are alike, and the first that is not, in forward order:
-- strictly, and beyond rounding. What follows from the choice of another token comes last. Names, then
-- the columns of kept_diff. Name both runs.
CREATE VIEW diff_part AS
SELECT
  f.run_a AS run_a, f.run_b AS run_b, f.run_a_id AS run_a_id, f.run_b_id AS run_b_id, f.why_not AS why_not,
  f.pairs AS pairs, f.compared AS compared, f.match AS match, f.rounding AS rounding, f.divergent AS divergent,
  f.unknown AS unknown, f.nonfinite AS nonfinite, f.incomparable AS incomparable, f.alike AS alike,
  f.only_a AS only_a,
  -- none where every row of b is a partner, of which no two rows of a have the same
  CASE WHEN f.why_not IS NULL AND f.pairs <> (SELECT count(*) FROM trace_row y WHERE y.run_id = f.run_b_id) THEN
    (SELECT count(*) FROM lone_row k WHERE k.run_a_id = f.run_a_id AND k.run_b_id = f.run_b_id) ELSE 0 END AS only_b,
  f.prompt_id AS prompt_id, f.phase_id AS phase_id, f.pos_id AS pos_id,
  f.layer AS layer, f.tensor_id AS tensor_id, f.divergent_prompt_id AS divergent_prompt_id,
  f.divergent_phase_id AS divergent_phase_id, f.divergent_pos_id AS divergent_pos_id,
  f.divergent_layer AS divergent_layer, f.divergent_tensor_id AS divergent_tensor_id,
  -- of the first beyond rounding, where there is one
  (SELECT CASE WHEN f.divergent_tensor_id IS NULL THEN o.origin ELSE o.numeric_origin END
   FROM comparison_placed o
   WHERE o.axis = 'runs' AND o.run_id = f.run_a_id AND o.other_run_id = f.run_b_id
     AND o.key_prompt_id = ifnull(f.divergent_prompt_id, f.prompt_id)
     AND o.phase_id = ifnull(f.divergent_phase_id, f.phase_id) AND o.side IN (0, 1, 2)
     AND o.key_pos_id = ifnull(f.divergent_pos_id, f.pos_id) AND o.key_layer = ifnull(f.divergent_layer, f.layer)
     AND o.key_tensor_id = ifnull(f.divergent_tensor_id, f.tensor_id)) AS origin,
  'another token at position '
    || CASE WHEN f.divergent_tensor_id IS NULL THEN f.token_at ELSE f.divergent_token_at END AS caused_by
FROM (
  SELECT
    w.run_a_id AS run_a_id, w.run_b_id AS run_b_id, w.run_a AS run_a, w.run_b AS run_b, w.why_not AS why_not,
    sum(CASE WHEN w.paired THEN w.count ELSE 0 END) OVER both AS pairs,
    sum(CASE WHEN w.paired AND w.status <> 'INCOMPARABLE' THEN w.count ELSE 0 END) OVER both AS compared,
    sum(CASE w.status WHEN 'MATCH' THEN w.count ELSE 0 END) OVER both AS match,
    sum(CASE WHEN w.status = 'DRIFT' AND w.class = 'ROUNDING' THEN w.count ELSE 0 END) OVER both AS rounding,
    sum(CASE w.class WHEN 'DIVERGENT' THEN w.count ELSE 0 END) OVER both AS divergent,
    sum(CASE WHEN w.class = 'UNKNOWN' OR w.status IN ('AMBIGUOUS', 'CONFLICT') THEN w.count ELSE 0 END) OVER both AS unknown,
    sum(CASE w.status WHEN 'NONFINITE' THEN w.count ELSE 0 END) OVER both AS nonfinite,
    sum(CASE w.status WHEN 'INCOMPARABLE' THEN w.count ELSE 0 END) OVER both AS incomparable,
    sum(CASE WHEN w.status = 'INCOMPARABLE' AND w.class = 'ROUNDING' THEN w.count ELSE 0 END) OVER both AS alike,
    sum(CASE w.status WHEN 'ALONE' THEN w.count ELSE 0 END) OVER both AS only_a,
    first_value(CASE WHEN w.fails THEN w.prompt_id END) OVER strict AS prompt_id,
    first_value(CASE WHEN w.fails THEN w.phase_id END) OVER strict AS phase_id,
    first_value(CASE WHEN w.fails THEN w.pos_id END) OVER strict AS pos_id,
    first_value(CASE WHEN w.fails THEN w.layer END) OVER strict AS layer,
    first_value(CASE WHEN w.fails THEN w.tensor_id END) OVER strict AS tensor_id,
    first_value(CASE WHEN w.diverges THEN w.prompt_id END) OVER beyond AS divergent_prompt_id,
    first_value(CASE WHEN w.diverges THEN w.phase_id END) OVER beyond AS divergent_phase_id,
    first_value(CASE WHEN w.diverges THEN w.pos_id END) OVER beyond AS divergent_pos_id,
    first_value(CASE WHEN w.diverges THEN w.layer END) OVER beyond AS divergent_layer,
    first_value(CASE WHEN w.diverges THEN w.tensor_id END) OVER beyond AS divergent_tensor_id,
    first_value(CASE WHEN w.fails AND w.follows THEN w.token_at END) OVER strict AS token_at,
    first_value(CASE WHEN w.diverges AND w.follows THEN w.token_at END) OVER beyond AS divergent_token_at,
    row_number() OVER both AS nth
  FROM (
    SELECT
      g.*,
      ifnull(g.fails, 0) AND (g.class IS NULL OR g.class = 'DIVERGENT') AS diverges,
      min(g.chosen_at) OVER of_prompt AS token_at,
      ifnull(g.pos_id >= min(g.chosen_at) OVER of_prompt, 0) AS follows,
      (SELECT t.ord FROM tensor t WHERE t.id = g.tensor_id) AS ord,
      (SELECT q.name FROM prompt q WHERE q.id = g.prompt_id) AS prompt
    FROM (
      SELECT
        p.run_a_id AS run_a_id, p.run_b_id AS run_b_id, p.run_a AS run_a, p.run_b AS run_b, p.why_not AS why_not,
        'MATCH' AS status, NULL AS class, 0 AS fails, 1 AS paired,
        ifnull((SELECT k.count FROM same_pair k WHERE k.run_a_id = p.run_a_id AND k.run_b_id = p.run_b_id), 0) AS count,
        NULL AS chosen_at, NULL AS forward_layer, NULL AS layer, NULL AS tensor_id, NULL AS phase_id,
        NULL AS prompt_id, NULL AS pos_id
      FROM unkept_pair p
      UNION ALL
      SELECT
        p.run_a_id, p.run_b_id, p.run_a, p.run_b, NULL,
        s.status, s.class, s.fails, s.compared, count(*),
        -- where another token was chosen
        CASE WHEN s.other_token AND NOT s.alone THEN s.key_pos_id END,
        -- SQLite takes the layer from the row that has the minimum
        CASE WHEN s.fails THEN min(s.forward_layer) END, s.key_layer,
        CASE WHEN s.fails THEN s.key_tensor_id END, CASE WHEN s.fails THEN s.phase_id END, s.key_prompt_id,
        CASE WHEN s.fails THEN s.key_pos_id END
      FROM unkept_pair p
      CROSS JOIN comparison_classed s
      WHERE p.why_not IS NULL
        AND NOT EXISTS (SELECT 1 FROM same_pair k WHERE k.run_a_id = p.run_a_id AND k.run_b_id = p.run_b_id)
        AND s.axis = 'runs' AND s.run_id = p.run_a_id AND s.other_run_id = p.run_b_id
        AND s.key_tensor_id IS NOT NULL
      GROUP BY p.run_a_id, p.run_b_id, p.run_a, p.run_b, s.key_prompt_id, s.status, s.class,
        CASE WHEN s.fails THEN s.key_tensor_id END, CASE WHEN s.fails THEN s.phase_id END,
        CASE WHEN s.fails THEN s.key_pos_id END, CASE WHEN s.other_token AND NOT s.alone THEN s.key_pos_id END
    ) g
    WINDOW of_prompt AS (PARTITION BY g.run_a_id, g.run_b_id, g.run_a, g.run_b, g.why_not, g.prompt_id)
  ) w
  WINDOW
    both AS (PARTITION BY w.run_a_id, w.run_b_id, w.run_a, w.run_b, w.why_not),
    strict AS (PARTITION BY w.run_a_id, w.run_b_id, w.run_a, w.run_b, w.why_not
      ORDER BY w.fails DESC, w.follows, w.forward_layer, w.ord, w.pos_id, w.prompt, w.phase_id
      ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING),
    beyond AS (PARTITION BY w.run_a_id, w.run_b_id, w.run_a, w.run_b, w.why_not
      ORDER BY w.diverges DESC, w.follows, w.forward_layer, w.ord, w.pos_id, w.prompt, w.phase_id
      ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
) f
WHERE f.nth = 1;
