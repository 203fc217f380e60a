-- The comparisons of prefill and decode of a run, counted; and the first in forward order that fails (strict),
-- that fails by its values (drift) and that fails by more than rounding (numeric). One row per run, level and
-- item as the table `verdict` has them. A first fail is one whose partner is missing, if there is any.
CREATE VIEW verdict_count AS
SELECT
  v.*, max(v.unwritten, v.lost) + v.unpaired AS unmet,
  -- the first that fails by the verdict to act on
  CASE WHEN v.strictly OR v.missing > 0 THEN v.strict_cause ELSE v.numeric_cause END AS first_cause,
  CASE WHEN v.strictly OR v.missing > 0 THEN v.strict_prompt_id ELSE v.numeric_prompt_id END AS first_prompt_id,
  CASE WHEN v.strictly OR v.missing > 0 THEN v.strict_pos_id ELSE v.numeric_pos_id END AS first_pos_id,
  CASE WHEN v.strictly OR v.missing > 0 THEN v.strict_layer ELSE v.numeric_layer END AS first_layer,
  CASE WHEN v.strictly OR v.missing > 0 THEN v.strict_name_id ELSE v.numeric_name_id END AS first_name_id,
  CASE WHEN v.strictly OR v.missing > 0 THEN v.strict_token_id ELSE v.numeric_token_id END AS first_token_id
FROM (
  SELECT
    f.*,
    -- one answer for the run, its prompts and its causes
    max(CASE WHEN f.level = 'run' THEN (SELECT r.mode FROM run r WHERE r.id = f.run_id) IS 'batch_invariant'
      OR f.unmeasured > 0 AND f.rounding + f.divergent = 0 END) OVER (PARTITION BY f.run_id) AS strictly
  FROM (
    SELECT
      g.run_id AS run_id, g.level AS level, g.item AS item, row_number() OVER strict AS nth,
      sum(CASE WHEN g.compared OR g.blamed THEN g.count ELSE 0 END) OVER strict AS compared,
      sum(g.pairs) OVER strict AS pairs,
      sum(CASE g.status WHEN 'MATCH' THEN g.count ELSE 0 END) OVER strict AS pass,
      sum(CASE WHEN g.fails THEN g.count ELSE 0 END) OVER strict AS fail,
      sum(CASE g.status WHEN 'DRIFT' THEN g.count ELSE 0 END) OVER strict AS drift,
      sum(CASE g.status WHEN 'NONFINITE' THEN g.count ELSE 0 END) OVER strict AS nonfinite,
      sum(CASE g.counts_as WHEN 'ROUNDING' THEN g.count ELSE 0 END) OVER strict AS rounding,
      sum(CASE g.counts_as WHEN 'DIVERGENT' THEN g.count ELSE 0 END) OVER strict AS divergent,
      sum(CASE g.class WHEN 'UNKNOWN' THEN g.count ELSE 0 END) OVER strict AS unmeasured,
      sum(CASE g.status WHEN 'MISSING' THEN g.count ELSE 0 END) OVER strict AS missing,
      max(CASE g.status WHEN 'MISSING' THEN g.elsewhere ELSE 0 END) OVER strict AS missing_elsewhere,
      sum(CASE g.status WHEN 'DECODE_ONLY' THEN g.count ELSE 0 END) OVER strict AS decode_only,
      sum(CASE g.status WHEN 'PREFILL_ONLY' THEN g.count ELSE 0 END) OVER strict AS prefill_only,
      sum(g.claimed) OVER strict AS claimed,
      sum(CASE g.status WHEN 'INCOMPARABLE' THEN g.count ELSE 0 END) OVER strict AS incomparable,
      sum(CASE g.status WHEN 'UNMET' THEN g.count ELSE 0 END) OVER strict AS unwritten,
      sum(CASE g.status WHEN 'LOST' THEN g.count ELSE 0 END) OVER strict AS lost,
      sum(CASE g.status WHEN 'UNPAIRED' THEN g.count ELSE 0 END) OVER strict AS unpaired,
      sum(g.partial) OVER strict AS partial,
      first_value(CASE WHEN g.blamed THEN g.cause END) OVER strict AS strict_cause,
      first_value(CASE WHEN g.blamed THEN g.prompt_id END) OVER strict AS strict_prompt_id,
      first_value(CASE WHEN g.blamed THEN g.pos_id END) OVER strict AS strict_pos_id,
      first_value(CASE WHEN g.blamed THEN g.layer END) OVER strict AS strict_layer,
      first_value(CASE WHEN g.blamed THEN g.name_id END) OVER strict AS strict_name_id,
      first_value(CASE WHEN g.blamed THEN g.token_id END) OVER strict AS strict_token_id,
      first_value(CASE WHEN g.blamed THEN g.report_line END) OVER strict AS strict_line,
      first_value(CASE WHEN g.fails THEN g.cause END) OVER drift AS drift_cause,
      first_value(CASE WHEN g.fails THEN g.layer END) OVER drift AS drift_layer,
      first_value(CASE WHEN g.fails THEN g.name_id END) OVER drift AS drift_name_id,
      first_value(CASE WHEN g.diverges THEN g.cause END) OVER beyond AS numeric_cause,
      first_value(CASE WHEN g.diverges THEN g.prompt_id END) OVER beyond AS numeric_prompt_id,
      first_value(CASE WHEN g.diverges THEN g.pos_id END) OVER beyond AS numeric_pos_id,
      first_value(CASE WHEN g.diverges THEN g.layer END) OVER beyond AS numeric_layer,
      first_value(CASE WHEN g.diverges THEN g.name_id END) OVER beyond AS numeric_name_id,
      first_value(CASE WHEN g.diverges THEN g.token_id END) OVER beyond AS numeric_token_id
    FROM (
      SELECT
        t.*, l.column1 AS level,
        CASE l.column1 WHEN 'prompt' THEN q.name WHEN 'cause' THEN t.cause ELSE '' END AS item,
        st.compared AS compared, st.fails AS fails, st.blamed AS blamed,
        st.fails AND (t.class IS NULL OR t.class = 'DIVERGENT') AS diverges,
        ifnull(t.prompt_place, q.name) AS place, k.ord AS ord, k.name AS tensor
      FROM (
        SELECT
          u.*,
          -- what inputs explain is rounding as long as nothing of the prompt, waived or not, is beyond what they explain
          CASE WHEN u.class IS NOT 'EXPLAINED' THEN u.class
            WHEN max(u.class = 'DIVERGENT') OVER (PARTITION BY u.run_id, u.prompt_id) THEN 'DIVERGENT' ELSE 'ROUNDING' END AS counts_as
        FROM (
        SELECT
          z.run_id AS run_id, z.prompt_id AS prompt_id, s.status AS status, s.class AS class, s.cause AS cause,
          count(*) AS count, sum(s.compared) AS pairs, sum(ifnull(s.scope <> 'full', 0)) AS partial,
          sum(CASE WHEN s.compared THEN s.claimed ELSE 0 END) AS claimed,
          sum(CASE s.status WHEN 'MISSING' THEN s.elsewhere ELSE 0 END) > 0 AS elsewhere,
          CASE WHEN s.status = 'DRIFT' AND EXISTS (SELECT 1 FROM waiver) THEN EXISTS (
            SELECT 1 FROM run_waiver w
            WHERE w.run_id = s.run_id AND w.tensor_id = s.key_tensor_id AND (w.layer IS NULL OR w.layer = s.key_layer))
            ELSE 0 END AS waived,
          -- SQLite takes what follows from the row that has the minimum: the first by layer, then by position
          min(CASE WHEN s.blamed THEN s.forward_layer * 1e9 + s.key_pos_id END) AS first,
          CASE WHEN s.blamed THEN s.forward_layer END AS forward_layer, CASE WHEN s.blamed THEN s.key_layer END AS layer,
          CASE WHEN s.blamed THEN s.name_id END AS name_id, CASE WHEN s.blamed THEN s.key_pos_id END AS pos_id,
          CASE WHEN s.blamed THEN s.token_id END AS token_id, CASE WHEN s.blamed THEN s.prompt_place END AS prompt_place,
          NULL AS report_line
        FROM position z
        CROSS JOIN comparison_cause s
        WHERE z.compare AND s.run_id = z.run_id AND s.other_run_id = z.run_id
          AND s.key_prompt_id = z.prompt_id AND s.side = z.side AND s.key_pos_id = z.pos_id
        GROUP BY CASE WHEN s.blamed THEN s.name_id END, s.status, s.class, s.switched_id, waived, z.prompt_id, z.run_id
        UNION ALL
        SELECT
          o.run_id, o.prompt_id, o.status, o.class, o.cause, o.count, o.claimed, 0, o.claimed, 0, 0, NULL, o.forward_layer, o.layer,
          o.name_id, o.pos_id, o.token_id, NULL, o.report_line
        FROM uncompared o) u
      ) t
      CROSS JOIN (VALUES ('run'), ('prompt'), ('cause'), ('gate')) l
      LEFT JOIN status st ON st.name = t.status
      LEFT JOIN prompt q ON q.id = t.prompt_id
      LEFT JOIN tensor_name n ON n.id = t.name_id
      LEFT JOIN tensor k ON k.id = n.tensor_id
      WHERE CASE l.column1 WHEN 'prompt' THEN q.id IS NOT NULL WHEN 'cause' THEN t.cause IS NOT NULL
        WHEN 'gate' THEN NOT t.waived AND EXISTS (SELECT 1 FROM run_waiver w WHERE w.run_id = t.run_id) ELSE 1 END
    ) g
    WINDOW
      strict AS (PARTITION BY g.run_id, g.level, g.item
        ORDER BY g.blamed DESC, g.status = 'MISSING' DESC, g.forward_layer, g.ord IS NULL, g.ord,
        ifnull(g.report_line, g.pos_id), g.place, g.tensor, g.cause
        ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING),
      drift AS (PARTITION BY g.run_id, g.level, g.item ORDER BY g.fails DESC, g.forward_layer, g.ord IS NULL, g.ord,
        ifnull(g.report_line, g.pos_id), g.place, g.tensor, g.cause),
      beyond AS (PARTITION BY g.run_id, g.level, g.item ORDER BY g.diverges DESC, g.forward_layer, g.ord IS NULL, g.ord,
        ifnull(g.report_line, g.pos_id), g.place, g.tensor, g.cause)
  ) f
  WHERE f.nth = 1) v;
