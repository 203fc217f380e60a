-- Two runs compared: how many rows are alike, the verdict, and the first difference in forward order, strictly and beyond
-- rounding, and where it comes from; where no values differ, the first row of run a that run b lacks. What follows from the
-- choice of another token comes last. level run: all rows; gate: without differences that are waived for run b, where any
-- is; common: of prompts that both have, whose tokens are the same, never PASS where there are others (left_out). Judging
-- keeps run and gate of a run and its baseline in the table run_change. Name both runs.
CREATE VIEW diff_now AS
SELECT
  v.*,
  CASE WHEN (SELECT r.mode FROM run r WHERE r.id = v.run_b_id) IS 'batch_invariant' OR v.unknown > 0 AND v.rounding + v.divergent = 0
    THEN v.strict_verdict ELSE v.numeric_verdict END AS verdict,
  (SELECT q.name FROM prompt q WHERE q.id = v.prompt_id) AS prompt, (SELECT h.name FROM phase h WHERE h.id = v.phase_id) AS phase, (SELECT t.name FROM tensor t WHERE t.id = v.tensor_id) AS tensor,
  (SELECT q.name FROM prompt q WHERE q.id = v.numeric_prompt_id) AS numeric_prompt, (SELECT h.name FROM phase h WHERE h.id = v.numeric_phase_id) AS numeric_phase, (SELECT t.name FROM tensor t WHERE t.id = v.numeric_tensor_id) AS numeric_tensor,
  CASE WHEN v.tensor_id IS NOT NULL THEN (SELECT CASE WHEN v.numeric_tensor_id IS NULL THEN o.origin ELSE o.numeric_origin END
   FROM comparison_origin o
   WHERE o.run_id = v.run_a_id AND o.other_run_id = v.run_b_id
     AND o.key_prompt_id = ifnull(v.numeric_prompt_id, v.prompt_id) AND o.side IN (0, 1, 2)
     AND o.phase_id = ifnull(v.numeric_phase_id, v.phase_id) AND o.key_pos_id = ifnull(v.numeric_pos_id, v.pos_id)
     AND o.key_layer = ifnull(v.numeric_layer, v.layer) AND o.key_tensor_id = ifnull(v.numeric_tensor_id, v.tensor_id)
     AND o.fails) END AS origin,
  'another token at position ' || CASE WHEN v.numeric_tensor_id IS NULL THEN v.token_at ELSE v.numeric_token_at END AS caused_by
FROM (
  SELECT
    f.*,
    CASE
      WHEN f.why_not IS NOT NULL THEN 'INCOMPARABLE'
      WHEN f.compared = 0 THEN 'NO_EVIDENCE'
      WHEN f.nonfinite + f.divergent + f.only_a + f.only_b + f.rounding + f.unknown > 0 THEN 'FAIL'
      WHEN f.match < f.pairs THEN 'INCOMPARABLE'
      WHEN f.incomplete_why IS NOT NULL OR f.left_out THEN 'INCOMPLETE'
      ELSE 'PASS'
    END AS strict_verdict,
    -- the same, ROUNDING read as MATCH and UNKNOWN as INCOMPARABLE
    CASE
      WHEN f.why_not IS NOT NULL THEN 'INCOMPARABLE'
      WHEN f.compared = 0 THEN 'NO_EVIDENCE'
      WHEN f.numeric_tensor_id IS NOT NULL OR f.only_a + f.only_b > 0 THEN 'FAIL'
      WHEN f.match + f.rounding + f.alike < f.pairs THEN 'INCOMPARABLE'
      WHEN f.incomplete_why IS NOT NULL OR f.left_out THEN 'INCOMPLETE'
      ELSE 'PASS'
    END AS numeric_verdict
  FROM (
    SELECT
      w.run_a_id AS run_a_id, w.run_b_id AS run_b_id, w.run_a AS run_a, w.run_b AS run_b, max(w.why_not) OVER strict AS why_not, max(w.status = 'LEFT_OUT') OVER strict AS left_out, w.level AS level, max(w.incomplete_why) OVER strict AS incomplete_why,
      sum(CASE WHEN w.paired THEN w.count ELSE 0 END) OVER strict AS pairs,
      sum(CASE WHEN w.paired AND w.status <> 'INCOMPARABLE' THEN w.count ELSE 0 END) OVER strict AS compared,
      sum(CASE w.status WHEN 'MATCH' THEN w.count ELSE 0 END) OVER strict AS match,
      sum(CASE WHEN w.status = 'DRIFT' AND w.counts_as = 'ROUNDING' THEN w.count ELSE 0 END) OVER strict AS rounding,
      sum(CASE w.counts_as WHEN 'DIVERGENT' THEN w.count ELSE 0 END) OVER strict AS divergent,
      sum(CASE WHEN w.class = 'UNKNOWN' OR w.status IN ('AMBIGUOUS', 'CONFLICT') THEN w.count ELSE 0 END) OVER strict AS unknown,
      sum(CASE w.status WHEN 'NONFINITE' THEN w.count ELSE 0 END) OVER strict AS nonfinite,
      sum(CASE w.status WHEN 'INCOMPARABLE' THEN w.count ELSE 0 END) OVER strict AS incomparable,
      sum(CASE WHEN w.status = 'INCOMPARABLE' AND w.class = 'ROUNDING' THEN w.count ELSE 0 END) OVER strict AS alike,
      sum(CASE w.status WHEN 'ALONE' THEN w.count ELSE 0 END) OVER strict AS only_a,
      sum(CASE w.status WHEN 'ONLY_B' THEN w.count ELSE 0 END) OVER strict AS only_b,
      first_value(CASE WHEN w.fails OR w.gone THEN w.prompt_id END) OVER strict AS prompt_id,
      first_value(CASE WHEN w.fails OR w.gone THEN w.phase_id END) OVER strict AS phase_id,
      first_value(CASE WHEN w.fails OR w.gone THEN w.pos_id END) OVER strict AS pos_id,
      first_value(CASE WHEN w.fails OR w.gone THEN w.layer END) OVER strict AS layer,
      first_value(CASE WHEN w.fails OR w.gone THEN w.tensor_id END) OVER strict AS tensor_id,
      first_value(CASE WHEN w.fails AND w.follows THEN w.token_at END) OVER strict AS token_at,
      first_value(CASE WHEN w.diverges OR w.gone THEN w.prompt_id END) OVER beyond AS numeric_prompt_id,
      first_value(CASE WHEN w.diverges OR w.gone THEN w.phase_id END) OVER beyond AS numeric_phase_id,
      first_value(CASE WHEN w.diverges OR w.gone THEN w.pos_id END) OVER beyond AS numeric_pos_id,
      first_value(CASE WHEN w.diverges OR w.gone THEN w.layer END) OVER beyond AS numeric_layer,
      first_value(CASE WHEN w.diverges OR w.gone THEN w.tensor_id END) OVER beyond AS numeric_tensor_id,
      first_value(CASE WHEN w.diverges AND w.follows THEN w.token_at END) OVER beyond AS numeric_token_at, row_number() OVER strict AS nth
    FROM (
      SELECT
        g.*, l.column1 AS level, ifnull(g.fails, 0) AND (g.class IS NULL OR g.class = 'DIVERGENT') AS diverges,
        min(g.chosen_at) OVER of_prompt AS token_at, ifnull(g.pos_id >= min(g.chosen_at) OVER of_prompt, 0) AS follows,
        (SELECT t.ord FROM tensor t WHERE t.id = g.tensor_id) AS ord, max(g.status = 'LEFT_OUT') OVER of_prompt AS apart,
        CASE WHEN g.status = 'PAIR' AND l.column1 = 'common' THEN g.because WHEN g.status = 'PAIR' THEN coalesce(g.because, (
          SELECT min(p.why_not) FROM run_pair p WHERE p.run_a_id = g.run_a_id AND p.run_b_id = g.run_b_id)) END AS why_not
      FROM (SELECT u.*, CASE WHEN u.class IS NOT 'EXPLAINED' THEN u.class  -- as in verdict_count
            WHEN max(u.class = 'DIVERGENT') OVER (PARTITION BY u.run_a_id, u.run_b_id, u.run_a, u.run_b, u.prompt_id) THEN 'DIVERGENT' ELSE 'ROUNDING' END AS counts_as
      FROM (
        SELECT
          p.run_a_id AS run_a_id, p.run_b_id AS run_b_id, p.run_a AS run_a, p.run_b AS run_b, NULL AS because, NULL AS incomplete_why,
          s.status AS status, s.class AS class, s.fails AS fails, s.status = 'ALONE' AS gone, s.compared AS paired,
          CASE WHEN s.status = 'DRIFT' AND EXISTS (SELECT 1 FROM waiver) THEN EXISTS (
            SELECT 1 FROM run_waiver v
            WHERE v.run_id = p.run_b_id AND v.tensor_id = s.key_tensor_id AND (v.layer IS NULL OR v.layer = s.key_layer))
            ELSE 0 END AS waived, count(*) AS count,
          CASE WHEN s.other_token AND NOT s.alone THEN s.key_pos_id END AS chosen_at,  -- where another token was chosen
          -- SQLite takes the layer from the row that has the minimum
          CASE WHEN s.fails OR s.status = 'ALONE' THEN min(s.forward_layer) END AS forward_layer, s.key_layer AS layer,
          CASE WHEN s.fails OR s.status = 'ALONE' THEN s.key_tensor_id END AS tensor_id, s.key_prompt_id AS prompt_id, s.prompt_place AS place,
          CASE WHEN s.fails OR s.status = 'ALONE' THEN s.phase_id END AS phase_id, CASE WHEN s.fails OR s.status = 'ALONE' THEN s.key_pos_id END AS pos_id
        FROM run_pair p CROSS JOIN comparison_graded s
        WHERE p.prompt_id IS NULL AND p.why_not IS NULL AND s.run_id = p.run_a_id AND s.other_run_id = p.run_b_id AND s.key_tensor_id IS NOT NULL
        GROUP BY p.run_a_id, p.run_b_id, p.run_a, p.run_b, s.key_prompt_id, s.status, s.class, chosen_at, waived,
          CASE WHEN s.fails OR s.status = 'ALONE' THEN s.key_tensor_id END, CASE WHEN s.fails OR s.status = 'ALONE' THEN s.phase_id END, CASE WHEN s.fails OR s.status = 'ALONE' THEN s.key_pos_id END
        UNION ALL
        SELECT p.run_a_id, p.run_b_id, p.run_a, p.run_b, NULL, NULL, 'ONLY_B', NULL, 0, 0, 0, 0, count(*), NULL, NULL, NULL, NULL, ifnull(s.other_prompt_id, s.key_prompt_id), NULL, NULL, NULL
        FROM run_pair p CROSS JOIN comparison s
        WHERE p.prompt_id IS NULL AND p.why_not IS NULL AND s.run_id = p.run_b_id AND s.other_run_id = p.run_a_id AND s.key_tensor_id IS NOT NULL AND s.alone
        GROUP BY p.run_a_id, p.run_b_id, p.run_a, p.run_b, ifnull(s.other_prompt_id, s.key_prompt_id)
        UNION ALL
        -- every two runs have one, so that those without rows in common are there too; why one is not whole is worked out
        -- once, last (cursors that stay open make it slow to open others), and not where a kept verdict says that it is
        SELECT p.run_a_id, p.run_b_id, p.run_a, p.run_b, p.why_not, CASE WHEN p.prompt_id IS NULL THEN (SELECT min(n.name || ': ' || s.incomplete_why)
           FROM run n CROSS JOIN run_state s ON s.run_id = n.id WHERE n.id IN (p.run_a_id, p.run_b_id) AND NOT EXISTS (
             SELECT 1 FROM verdict v WHERE v.run_id = n.id AND v.level = 'run' AND v.numeric_verdict IN ('PASS', 'INCOMPARABLE'))) END,
          CASE WHEN p.prompt_id IS NULL THEN 'PAIR' ELSE 'LEFT_OUT' END, NULL, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, p.prompt_id, NULL, NULL, NULL
        FROM run_pair p) u) g
      CROSS JOIN (VALUES ('run'), ('gate'), ('common')) l
      WHERE CASE l.column1 WHEN 'gate' THEN NOT g.waived AND EXISTS (SELECT 1 FROM run_waiver v WHERE v.run_id = g.run_b_id) ELSE 1 END
        AND CASE WHEN l.column1 = 'common' OR g.status = 'PAIR' THEN 1 ELSE g.status <> 'LEFT_OUT' AND NOT EXISTS (
          SELECT 1 FROM run_pair p WHERE p.run_a_id = g.run_a_id AND p.run_b_id = g.run_b_id AND p.why_not IS NOT NULL) END
      WINDOW of_prompt AS (PARTITION BY g.run_a_id, g.run_b_id, g.run_a, g.run_b, l.column1, g.prompt_id)
    ) w
    WHERE w.status = 'LEFT_OUT' OR NOT w.apart
    WINDOW
      strict AS (PARTITION BY w.run_a_id, w.run_b_id, w.run_a, w.run_b, w.level
        ORDER BY w.fails DESC, w.gone DESC, w.follows, w.forward_layer, w.ord, w.pos_id, w.place, w.phase_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING),
      beyond AS (PARTITION BY w.run_a_id, w.run_b_id, w.run_a, w.run_b, w.level
        ORDER BY w.diverges DESC, w.gone DESC, w.follows, w.forward_layer, w.ord, w.pos_id, w.place, w.phase_id)
  ) f
  WHERE f.nth = 1) v;
