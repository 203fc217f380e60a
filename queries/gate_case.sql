-- One row per run, prompt and layer where something is compared or has to be, as a report of tests has it:
-- does prefill agree with decode there? Waived differences (view waived) are left out. What a run as a whole
-- lacks is in view gate.
CREATE VIEW gate_case AS
SELECT
  w.run AS run,                                        -- run.name
  w.prompt AS prompt,                                  -- prompt of the run
  w.layer AS layer,                                    -- -1: after the stack
  CASE
    WHEN w.fail > 0 THEN 'FAIL'
    WHEN w.pairs <= w.claimed THEN 'NO_EVIDENCE'
    WHEN w.claimed + w.undecided > 0 THEN 'INCOMPARABLE'
    ELSE 'PASS'
  END AS status,                                       -- PASS, FAIL, INCOMPARABLE; NO_EVIDENCE: nothing is compared, or all of it is waived
  CASE
    WHEN w.numeric_fail > 0 THEN 'FAIL'
    WHEN w.pairs <= w.claimed THEN 'NO_EVIDENCE'
    WHEN w.claimed + w.numeric_undecided > 0 THEN 'INCOMPARABLE'
    ELSE 'PASS'
  END AS numeric_status,                               -- the same, ROUNDING read as MATCH and UNKNOWN as INCOMPARABLE
  w.pairs AS pairs,                                    -- with a row on both sides, none of them waived
  w.fail AS fail,                                      -- comparisons that fail, rows without a partner among them
  w.numeric_fail AS numeric_fail,                      -- of those, by more than rounding
  w.waived AS waived,                                  -- pairs that are waived
  CASE WHEN w.fail > 0 THEN w.first_cause END AS cause, -- of the first that fails, in forward order
  CASE WHEN w.fail > 0 THEN (SELECT name FROM tensor_name WHERE id = w.first_name_id) END AS tensor, -- of that, as the prefill row names it
  CASE WHEN w.fail > 0 THEN nullif(w.first_pos_id, -1) END AS pos_id, -- of that, where it is worst
  CASE WHEN w.fail > 0 THEN printf('%s at %s%s: %d %s%s%s', w.first_cause,
    (SELECT name FROM tensor_name WHERE id = w.first_name_id),
    CASE WHEN w.first_pos_id >= 0 THEN printf(', pos %d', w.first_pos_id) ELSE '' END, w.first_count, w.first_status,
    CASE WHEN w.first_rel_l2 >= 0 THEN printf(', rel_l2 up to %.3g (tolerance %.3g)', w.first_rel_l2, w.first_tolerance) ELSE '' END,
    CASE WHEN w.fail > w.first_count THEN printf('; %d comparisons of this layer fail', w.fail) ELSE '' END)
  END AS message,                                      -- cause, trace point, worst distance, how many
  CASE WHEN w.numeric_fail > 0 THEN w.beyond_cause END AS numeric_cause, -- of the first that fails by more than rounding
  CASE WHEN w.numeric_fail > 0 THEN (SELECT name FROM tensor_name WHERE id = w.beyond_name_id) END AS numeric_tensor, -- of that
  CASE WHEN w.numeric_fail > 0 THEN nullif(w.beyond_pos_id, -1) END AS numeric_pos_id, -- of that, where it is worst
  CASE WHEN w.numeric_fail > 0 THEN printf('%s at %s%s: %d %s%s%s', w.beyond_cause,
    (SELECT name FROM tensor_name WHERE id = w.beyond_name_id),
    CASE WHEN w.beyond_pos_id >= 0 THEN printf(', pos %d', w.beyond_pos_id) ELSE '' END, w.beyond_count, w.beyond_status,
    CASE WHEN w.beyond_rel_l2 >= 0 THEN printf(', rel_l2 up to %.3g (tolerance %.3g)', w.beyond_rel_l2, w.beyond_tolerance) ELSE '' END,
    CASE WHEN w.numeric_fail > w.beyond_count THEN printf('; %d comparisons of this layer fail', w.numeric_fail) ELSE '' END)
  END AS numeric_message,                              -- the same of that
  w.forward_layer AS forward_layer,                    -- forward order
  w.run_id AS run_id,                                  -- run.id
  w.prompt_id AS prompt_id                             -- prompt.id
FROM (
  SELECT
    t.run_id AS run_id, t.run AS run, t.prompt_id AS prompt_id, t.prompt AS prompt, t.layer AS layer,
    max(t.forward_layer) OVER part AS forward_layer,
    sum(CASE WHEN t.waived THEN 0 ELSE t.pairs END) OVER part AS pairs,
    sum(t.claimed) OVER part AS claimed,
    sum(CASE WHEN t.waived THEN t.count ELSE 0 END) OVER part AS waived,
    sum(CASE WHEN t.fails THEN t.count ELSE 0 END) OVER part AS fail,
    sum(CASE WHEN t.diverges THEN t.count ELSE 0 END) OVER part AS numeric_fail,
    sum(CASE WHEN t.status = 'INCOMPARABLE' THEN t.count ELSE 0 END) OVER part AS undecided,
    sum(CASE WHEN NOT t.waived AND (t.class = 'UNKNOWN' OR t.status = 'INCOMPARABLE' AND t.class IS NULL)
      THEN t.count ELSE 0 END) OVER part AS numeric_undecided,
    first_value(t.cause) OVER first AS first_cause, first_value(t.name_id) OVER first AS first_name_id,
    first_value(t.pos_id) OVER first AS first_pos_id, first_value(t.count) OVER first AS first_count,
    first_value(t.words) OVER first AS first_status, first_value(t.rel_l2) OVER first AS first_rel_l2,
    first_value(t.tolerance) OVER first AS first_tolerance,
    first_value(t.cause) OVER beyond AS beyond_cause, first_value(t.name_id) OVER beyond AS beyond_name_id,
    first_value(t.pos_id) OVER beyond AS beyond_pos_id, first_value(t.count) OVER beyond AS beyond_count,
    first_value(t.words) OVER beyond AS beyond_status, first_value(t.rel_l2) OVER beyond AS beyond_rel_l2,
    first_value(t.tolerance) OVER beyond AS beyond_tolerance,
    row_number() OVER part AS nth
  FROM (
    SELECT
      f.*, f.blamed AND NOT f.waived AS fails,
      f.blamed AND NOT f.waived AND (f.class IS NULL OR f.class = 'DIVERGENT') AS diverges,
      f.status || CASE WHEN f.class IS NULL THEN '' ELSE ' ' || f.class END AS words,
      (SELECT k.ord FROM tensor k WHERE k.id = f.tensor_id) AS ord
    FROM (
      SELECT
        g.*,
        CASE WHEN g.status = 'DRIFT' THEN EXISTS (
          SELECT 1 FROM run_waiver a
          WHERE a.run_id = g.run_id AND a.tensor_id = g.key_tensor_id AND (a.layer IS NULL OR a.layer = g.layer))
          ELSE 0 END AS waived
      FROM (
        -- SQLite takes the other columns from the row that has the maximum
        SELECT
          s.run_id AS run_id, s.run AS run, s.key_prompt_id AS prompt_id, q.name AS prompt, s.key_layer AS layer,
          s.key_tensor_id AS tensor_id, s.key_tensor_id AS key_tensor_id, s.status AS status, s.class AS class,
          s.blamed AS blamed, count(*) AS count, sum(s.compared) AS pairs,
          sum(CASE WHEN s.compared THEN s.claimed ELSE 0 END) AS claimed,
          max(ifnull(s.rel_l2, -1)) AS rel_l2, s.tolerance AS tolerance, s.cause AS cause, s.name_id AS name_id,
          s.key_pos_id AS pos_id, s.forward_layer AS forward_layer
        FROM position z
        CROSS JOIN comparison_cause s
        JOIN prompt q ON q.id = s.key_prompt_id
        WHERE z.compare AND s.run_id = z.run_id AND s.other_run_id = z.run_id
          AND s.key_prompt_id = z.prompt_id AND s.side = z.side AND s.key_pos_id = z.pos_id
        GROUP BY s.run_id, s.run, s.key_prompt_id, q.name, s.key_layer, s.key_tensor_id, s.status, s.class
        UNION ALL
        -- what double arithmetic refutes, and what a report's table lists
        SELECT
          o.run_id, r.name, o.prompt_id, q.name, ifnull(o.layer, -1), n.tensor_id, NULL, o.status, o.class, st.blamed,
          o.count, o.claimed, o.claimed, ifnull(CASE o.status WHEN 'REFUTED' THEN (
            SELECT max(e.error) FROM refuted_readout e
            WHERE e.run_id = o.run_id AND e.prompt_id = o.prompt_id AND e.pos_id = o.pos_id AND e.cause = o.cause) END, -1),
          CASE o.status WHEN 'REFUTED' THEN (
            SELECT l.rel_l2 FROM run_tolerance l WHERE l.run_id = o.run_id AND l.tensor_id = n.tensor_id) END,
          o.cause, o.name_id, o.pos_id, o.forward_layer
        FROM uncompared o
        JOIN status st ON st.name = o.status
        JOIN run r ON r.id = o.run_id
        JOIN prompt q ON q.id = o.prompt_id
        LEFT JOIN tensor_name n ON n.id = o.name_id
        WHERE o.status <> 'DECODE_ONLY'
      ) g
    ) f
  ) t
  WINDOW
    part AS (PARTITION BY t.run_id, t.run, t.prompt_id, t.prompt, t.layer),
    first AS (PARTITION BY t.run_id, t.run, t.prompt_id, t.prompt, t.layer
      ORDER BY t.fails DESC, t.status = 'MISSING' DESC, t.ord IS NULL, t.ord, t.name_id, t.cause
      ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING),
    beyond AS (PARTITION BY t.run_id, t.run, t.prompt_id, t.prompt, t.layer
      ORDER BY t.diverges DESC, t.status = 'MISSING' DESC, t.ord IS NULL, t.ord, t.name_id, t.cause
      ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
) w
WHERE w.nth = 1;
