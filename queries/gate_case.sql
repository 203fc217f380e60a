-- One row per run, prompt, layer and gate (strict, numeric) where something is compared or has to be, as a report of
-- tests has it: does prefill agree with decode there? Waived differences are left out. Facts that a run as a whole
-- lacks are in view gate. The numeric gate reads ROUNDING as MATCH and UNKNOWN as INCOMPARABLE.
CREATE VIEW gate_case AS
SELECT
  w.run AS run,                                        -- run.name
  w.prompt AS prompt,                                  -- prompt of the run
  w.layer AS layer,                                    -- -1: after the stack
  w.gate AS gate,                                      -- strict, numeric
  CASE
    WHEN w.fail > 0 THEN 'FAIL'
    WHEN w.pairs <= w.claimed THEN 'NO_EVIDENCE'
    WHEN w.claimed + w.undecided > 0 THEN 'INCOMPARABLE'
    ELSE 'PASS'
  END AS status,                                       -- PASS, FAIL, INCOMPARABLE; NO_EVIDENCE: nothing is compared, or all of it is waived
  w.pairs AS pairs,                                    -- with a row on both sides, none of them waived
  w.fail AS fail,                                      -- comparisons that fail, rows without a partner among them
  w.waived AS waived,                                  -- pairs that are waived
  CASE WHEN w.fail > 0 THEN w.cause END AS cause,      -- of the first that fails, in forward order
  CASE WHEN w.fail > 0 THEN w.tensor END AS tensor,    -- of that, as the prefill row names it
  CASE WHEN w.fail > 0 THEN nullif(w.pos_id, -1) END AS pos_id, -- of that, where it is worst
  CASE WHEN w.fail > 0 THEN printf('%s at %s%s: %d %s%s%s', w.cause, w.tensor,
    CASE WHEN w.pos_id >= 0 THEN printf(', pos %d', w.pos_id) ELSE '' END, w.count, w.status,
    CASE WHEN w.rel_l2 >= 0 THEN printf(', rel_l2 up to %.3g (tolerance %.3g)', w.rel_l2, w.tolerance) ELSE '' END,
    CASE WHEN w.fail > w.count THEN printf('; %d comparisons of this layer fail', w.fail) ELSE '' END)
  END AS message,                                      -- cause, trace point, worst distance, how many
  w.forward_layer AS forward_layer,                    -- forward order
  w.run_id AS run_id,                                  -- run.id
  w.prompt_id AS prompt_id                             -- prompt.id
FROM (
  SELECT
    t.run_id AS run_id, t.run AS run, t.prompt_id AS prompt_id, t.prompt AS prompt, t.layer AS layer, t.gate AS gate,
    max(t.forward_layer) OVER part AS forward_layer,
    sum(CASE WHEN t.waived THEN 0 ELSE t.pairs END) OVER part AS pairs, sum(t.claimed) OVER part AS claimed,
    sum(CASE WHEN t.waived THEN t.count ELSE 0 END) OVER part AS waived,
    sum(CASE WHEN t.fails THEN t.count ELSE 0 END) OVER part AS fail,
    sum(CASE WHEN t.undecided THEN t.count ELSE 0 END) OVER part AS undecided,
    -- of the first that fails
    t.cause AS cause, t.tensor AS tensor, t.pos_id AS pos_id, t.count AS count, t.rel_l2 AS rel_l2,
    t.tolerance AS tolerance, t.status || CASE WHEN t.class IS NULL THEN '' ELSE ' ' || t.class END AS status,
    row_number() OVER (PARTITION BY t.run_id, t.run, t.prompt_id, t.prompt, t.layer, t.gate
      ORDER BY t.fails DESC, t.status = 'MISSING' DESC, t.ord IS NULL, t.ord, t.name_id, t.cause) AS nth
  FROM (
    SELECT
      f.*, h.column1 AS gate,
      f.blamed AND NOT f.waived AND (h.column1 = 'strict' OR f.class IS NULL OR f.counts_as = 'DIVERGENT') AS fails,
      CASE WHEN h.column1 = 'strict' THEN f.status = 'INCOMPARABLE'
        ELSE NOT f.waived AND (f.class = 'UNKNOWN' OR f.status = 'INCOMPARABLE' AND f.class IS NULL) END AS undecided,
      (SELECT k.ord FROM tensor k WHERE k.id = f.tensor_id) AS ord,
      (SELECT m.name FROM tensor_name m WHERE m.id = f.name_id) AS tensor
    FROM (
      SELECT
        u.*, CASE WHEN u.class IS NOT 'EXPLAINED' THEN u.class  -- as in verdict_count
          WHEN max(u.class = 'DIVERGENT') OVER (PARTITION BY u.run_id, u.run, u.prompt_id, u.prompt) THEN 'DIVERGENT' ELSE 'ROUNDING' END AS counts_as
      FROM (
      -- SQLite takes the other columns from the row that has the maximum
      SELECT
        s.run_id AS run_id, s.run AS run, s.key_prompt_id AS prompt_id, q.name AS prompt, s.key_layer AS layer,
        s.key_tensor_id AS tensor_id, s.status AS status, s.class AS class, s.blamed AS blamed, count(*) AS count,
        sum(s.compared) AS pairs, sum(CASE WHEN s.compared THEN s.claimed ELSE 0 END) AS claimed,
        max(ifnull(s.rel_l2, -1)) AS rel_l2, s.tolerance AS tolerance, s.cause AS cause, s.name_id AS name_id,
        s.key_pos_id AS pos_id, s.forward_layer AS forward_layer,
        CASE WHEN s.status = 'DRIFT' THEN EXISTS (
          SELECT 1 FROM run_waiver a
          WHERE a.run_id = s.run_id AND a.tensor_id = s.key_tensor_id AND (a.layer IS NULL OR a.layer = s.key_layer))
          ELSE 0 END AS waived
      FROM position z
      CROSS JOIN comparison_cause s
      JOIN prompt q ON q.id = s.key_prompt_id
      WHERE z.compare AND s.run_id = z.run_id AND s.other_run_id = z.run_id
        AND s.key_prompt_id = z.prompt_id AND s.side = z.side AND s.key_pos_id = z.pos_id
      GROUP BY s.run_id, s.run, s.key_prompt_id, q.name, s.key_layer, s.key_tensor_id, s.status, s.class
      UNION ALL
      -- rows that double arithmetic refutes, and lines of a report's table
      SELECT
        o.run_id, r.name, o.prompt_id, q.name, ifnull(o.layer, -1), n.tensor_id, o.status, o.class, st.blamed, o.count,
        o.claimed, o.claimed, ifnull(CASE o.status WHEN 'REFUTED' THEN (
          SELECT max(e.error) FROM refuted_readout e
          WHERE e.run_id = o.run_id AND e.prompt_id = o.prompt_id AND e.pos_id = o.pos_id AND e.cause = o.cause) END, -1),
        CASE o.status WHEN 'REFUTED' THEN (
          SELECT l.rel_l2 FROM run_tolerance l WHERE l.run_id = o.run_id AND l.tensor_id = n.tensor_id) END,
        o.cause, o.name_id, o.pos_id, o.forward_layer, 0
      FROM uncompared o
      JOIN status st ON st.name = o.status
      JOIN run r ON r.id = o.run_id
      JOIN prompt q ON q.id = o.prompt_id
      LEFT JOIN tensor_name n ON n.id = o.name_id
      WHERE o.status <> 'DECODE_ONLY') u
    ) f
    CROSS JOIN (VALUES ('strict'), ('numeric')) h
  ) t
  WINDOW part AS (PARTITION BY t.run_id, t.run, t.prompt_id, t.prompt, t.layer, t.gate)
) w
WHERE w.nth = 1;
