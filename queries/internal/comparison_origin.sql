-- comparison_graded of the phases with what feeds it in the data flow. The nearest traced ancestors: a
-- walk up the edges through trace points that have no pair (for a row without a partner: no row of its
-- side), which stops at the first that has. States
-- of an ancestor: 1 matches, 2 differs by rounding, 3 cannot be compared, 4 differs by more. Each
-- column walks for itself, and only when it is asked for.
CREATE VIEW comparison_origin AS
SELECT
  s.*,
  -- the worst state, NULL where no ancestor was traced
  (WITH RECURSIVE up(layer, tensor_id) AS (
      SELECT CASE e.layer WHEN 'same' THEN s.layer WHEN 'previous' THEN s.layer - 1 ELSE s.last_layer END, e.from_id
      FROM edge e WHERE e.to_id = s.tensor_id AND e.kind <> 'alias'
      UNION
      SELECT CASE e.layer WHEN 'same' THEN u.layer WHEN 'previous' THEN u.layer - 1 ELSE s.last_layer END, e.from_id
      FROM up u CROSS JOIN edge e ON e.to_id = u.tensor_id AND e.kind <> 'alias'
      WHERE u.layer >= -1 AND CASE WHEN s.alone AND s.report_source_id IS NULL THEN NOT EXISTS (
        SELECT 1 FROM trace_row b
        WHERE b.run_id = s.run_id AND b.prompt_id = s.key_prompt_id AND b.side = s.side AND b.pos_id = s.key_pos_id
          AND b.layer = u.layer AND b.tensor_id = u.tensor_id) ELSE NOT EXISTS (
        SELECT 1 FROM traced_pair b
        WHERE b.run_id = s.run_id AND b.prompt_id = s.key_prompt_id AND b.pos_id = s.key_pos_id
          AND b.layer = u.layer AND b.tensor_id = u.tensor_id) END
      AND CASE WHEN s.report_source_id IS NULL THEN 1 ELSE NOT EXISTS (
        SELECT 1 FROM report_ancestor_state b
        WHERE b.source_id = s.report_source_id AND b.run_id = s.run_id AND b.prompt_id = s.prompt_id
          AND b.layer = u.layer AND b.tensor_id = u.tensor_id) END)
    SELECT max(CASE WHEN s.report_source_id IS NULL THEN CASE WHEN s.alone AND s.report_source_id IS NULL THEN (
        SELECT max(CASE WHEN b.nan > 0 OR b.inf > 0 OR b.flags & 1 THEN 4 ELSE 1 END) FROM trace_row b
        WHERE b.run_id = s.run_id AND b.prompt_id = s.key_prompt_id AND b.side = s.side AND b.pos_id = s.key_pos_id
          AND b.layer = u.layer AND b.tensor_id = u.tensor_id)
      ELSE (
        -- a direct input that explains less than this differs by counts as clean
        SELECT max(CASE WHEN s.steady AND EXISTS (
            SELECT 1 FROM run_noise n
            WHERE n.run_id = s.run_id AND n.tensor_id = s.tensor_id AND n.layer = s.layer
              AND s.rel_l2 > n.rel_l2 + n.gain * i.rel_l2
              AND EXISTS (SELECT 1 FROM edge e WHERE e.to_id = s.tensor_id AND e.from_id = u.tensor_id AND e.kind <> 'alias'))
          THEN 1 ELSE i.state END) FROM ancestor_state i
        WHERE i.run_id = s.run_id AND i.prompt_id = s.key_prompt_id AND i.pos_id = s.key_pos_id
          AND i.layer = u.layer AND i.tensor_id = u.tensor_id) END
      ELSE (
        SELECT max(i.state) FROM report_ancestor_state i
        WHERE i.source_id = s.report_source_id AND i.run_id = s.run_id AND i.prompt_id = s.prompt_id
          AND i.layer = u.layer AND i.tensor_id = u.tensor_id) END) FROM up u) AS worst_input,
  -- the first in forward order of those that differ, as tensor@layer
  (WITH RECURSIVE up(layer, tensor_id) AS (
      SELECT CASE e.layer WHEN 'same' THEN s.layer WHEN 'previous' THEN s.layer - 1 ELSE s.last_layer END, e.from_id
      FROM edge e WHERE e.to_id = s.tensor_id AND e.kind <> 'alias'
      UNION
      SELECT CASE e.layer WHEN 'same' THEN u.layer WHEN 'previous' THEN u.layer - 1 ELSE s.last_layer END, e.from_id
      FROM up u CROSS JOIN edge e ON e.to_id = u.tensor_id AND e.kind <> 'alias'
      WHERE u.layer >= -1 AND CASE WHEN s.alone AND s.report_source_id IS NULL THEN NOT EXISTS (
        SELECT 1 FROM trace_row b
        WHERE b.run_id = s.run_id AND b.prompt_id = s.key_prompt_id AND b.side = s.side AND b.pos_id = s.key_pos_id
          AND b.layer = u.layer AND b.tensor_id = u.tensor_id) ELSE NOT EXISTS (
        SELECT 1 FROM traced_pair b
        WHERE b.run_id = s.run_id AND b.prompt_id = s.key_prompt_id AND b.pos_id = s.key_pos_id
          AND b.layer = u.layer AND b.tensor_id = u.tensor_id) END
      AND CASE WHEN s.report_source_id IS NULL THEN 1 ELSE NOT EXISTS (
        SELECT 1 FROM report_ancestor_state b
        WHERE b.source_id = s.report_source_id AND b.run_id = s.run_id AND b.prompt_id = s.prompt_id
          AND b.layer = u.layer AND b.tensor_id = u.tensor_id) END)
    SELECT CASE WHEN a.state IN (2, 4) THEN
      (SELECT t.name FROM tensor t WHERE t.id = a.tensor_id) || '@' || a.layer END
    FROM (
      SELECT u.layer AS layer, u.tensor_id AS tensor_id, CASE WHEN s.report_source_id IS NULL THEN CASE WHEN s.alone AND s.report_source_id IS NULL THEN (
        SELECT max(CASE WHEN b.nan > 0 OR b.inf > 0 OR b.flags & 1 THEN 4 ELSE 1 END) FROM trace_row b
        WHERE b.run_id = s.run_id AND b.prompt_id = s.key_prompt_id AND b.side = s.side AND b.pos_id = s.key_pos_id
          AND b.layer = u.layer AND b.tensor_id = u.tensor_id)
      ELSE (
        SELECT max(i.state) FROM ancestor_state i
        WHERE i.run_id = s.run_id AND i.prompt_id = s.key_prompt_id AND i.pos_id = s.key_pos_id
          AND i.layer = u.layer AND i.tensor_id = u.tensor_id) END
      ELSE (
        SELECT max(i.state) FROM report_ancestor_state i
        WHERE i.source_id = s.report_source_id AND i.run_id = s.run_id AND i.prompt_id = s.prompt_id
          AND i.layer = u.layer AND i.tensor_id = u.tensor_id) END AS state
      FROM up u) a
    WHERE a.state IS NOT NULL
    ORDER BY a.state DESC, a.layer, a.tensor_id LIMIT 1) AS caused_by,
  -- From the earliest of the nearest traced ancestors, or the embedding where a branch leads to it past
  -- all that was traced, to here. 1: whole layers lie between (after the
  -- stack: unless the model has no more), or this is a copy from another layer, and not of that.
  (WITH RECURSIVE up(layer, tensor_id) AS (
      SELECT CASE e.layer WHEN 'same' THEN s.layer WHEN 'previous' THEN s.layer - 1 ELSE s.last_layer END, e.from_id
      FROM edge e WHERE e.to_id = s.tensor_id AND e.kind <> 'alias'
      UNION
      SELECT CASE e.layer WHEN 'same' THEN u.layer WHEN 'previous' THEN u.layer - 1 ELSE s.last_layer END, e.from_id
      FROM up u CROSS JOIN edge e ON e.to_id = u.tensor_id AND e.kind <> 'alias'
      WHERE u.layer >= -1 AND CASE WHEN s.alone AND s.report_source_id IS NULL THEN NOT EXISTS (
        SELECT 1 FROM trace_row b
        WHERE b.run_id = s.run_id AND b.prompt_id = s.key_prompt_id AND b.side = s.side AND b.pos_id = s.key_pos_id
          AND b.layer = u.layer AND b.tensor_id = u.tensor_id) ELSE NOT EXISTS (
        SELECT 1 FROM traced_pair b
        WHERE b.run_id = s.run_id AND b.prompt_id = s.key_prompt_id AND b.pos_id = s.key_pos_id
          AND b.layer = u.layer AND b.tensor_id = u.tensor_id) END
      AND CASE WHEN s.report_source_id IS NULL THEN 1 ELSE NOT EXISTS (
        SELECT 1 FROM report_ancestor_state b
        WHERE b.source_id = s.report_source_id AND b.run_id = s.run_id AND b.prompt_id = s.prompt_id
          AND b.layer = u.layer AND b.tensor_id = u.tensor_id) END)
    SELECT CASE s.stage WHEN 'layer' THEN u.layer + ((SELECT t.stage FROM tensor t WHERE t.id = u.tensor_id) = 'layer') < s.layer
      ELSE CASE (SELECT t.stage FROM tensor t WHERE t.id = u.tensor_id) WHEN 'embed' THEN 1 WHEN 'layer' THEN u.layer + 1 IS NOT (SELECT CAST(a.value AS INTEGER) FROM attribute a WHERE a.run_id = s.run_id AND a.dim = 'n_layers' ORDER BY a.rank, a.value LIMIT 1) ELSE 0 END END
      OR EXISTS (SELECT 1 FROM edge e WHERE e.to_id = s.tensor_id AND e.kind = 'copy' AND e.layer <> 'same'
                   AND (e.layer <> 'previous' OR s.layer > 0))
        AND NOT EXISTS (SELECT 1 FROM edge e WHERE e.to_id = s.tensor_id AND e.from_id = u.tensor_id
                          AND e.kind IN ('copy', 'alias'))
    FROM up u
    WHERE CASE WHEN u.layer = 0 AND s.layer <> 0 THEN (SELECT t.stage FROM tensor t WHERE t.id = u.tensor_id) = 'embed' END
      OR CASE WHEN s.report_source_id IS NULL THEN CASE WHEN s.alone AND s.report_source_id IS NULL THEN EXISTS (
        SELECT 1 FROM trace_row b
        WHERE b.run_id = s.run_id AND b.prompt_id = s.key_prompt_id AND b.side = s.side AND b.pos_id = s.key_pos_id
          AND b.layer = u.layer AND b.tensor_id = u.tensor_id) ELSE EXISTS (
        SELECT 1 FROM traced_pair b
        WHERE b.run_id = s.run_id AND b.prompt_id = s.key_prompt_id AND b.pos_id = s.key_pos_id
          AND b.layer = u.layer AND b.tensor_id = u.tensor_id) END
      ELSE EXISTS (
        SELECT 1 FROM report_ancestor_state b
        WHERE b.source_id = s.report_source_id AND b.run_id = s.run_id AND b.prompt_id = s.prompt_id
          AND b.layer = u.layer AND b.tensor_id = u.tensor_id) END
    ORDER BY u.layer, u.tensor_id LIMIT 1) AS unsampled,
  -- in words
  (WITH RECURSIVE up(layer, tensor_id) AS (
      SELECT CASE e.layer WHEN 'same' THEN s.layer WHEN 'previous' THEN s.layer - 1 ELSE s.last_layer END, e.from_id
      FROM edge e WHERE e.to_id = s.tensor_id AND e.kind <> 'alias'
      UNION
      SELECT CASE e.layer WHEN 'same' THEN u.layer WHEN 'previous' THEN u.layer - 1 ELSE s.last_layer END, e.from_id
      FROM up u CROSS JOIN edge e ON e.to_id = u.tensor_id AND e.kind <> 'alias'
      WHERE u.layer >= -1 AND CASE WHEN s.alone AND s.report_source_id IS NULL THEN NOT EXISTS (
        SELECT 1 FROM trace_row b
        WHERE b.run_id = s.run_id AND b.prompt_id = s.key_prompt_id AND b.side = s.side AND b.pos_id = s.key_pos_id
          AND b.layer = u.layer AND b.tensor_id = u.tensor_id) ELSE NOT EXISTS (
        SELECT 1 FROM traced_pair b
        WHERE b.run_id = s.run_id AND b.prompt_id = s.key_prompt_id AND b.pos_id = s.key_pos_id
          AND b.layer = u.layer AND b.tensor_id = u.tensor_id) END
      AND CASE WHEN s.report_source_id IS NULL THEN 1 ELSE NOT EXISTS (
        SELECT 1 FROM report_ancestor_state b
        WHERE b.source_id = s.report_source_id AND b.run_id = s.run_id AND b.prompt_id = s.prompt_id
          AND b.layer = u.layer AND b.tensor_id = u.tensor_id) END)
    SELECT printf('between %s%s and %s%s', (SELECT t.name FROM tensor t WHERE t.id = u.tensor_id),
      CASE WHEN (SELECT t.stage FROM tensor t WHERE t.id = u.tensor_id) <> 'layer' OR u.layer = s.layer THEN '' ELSE ' of layer ' || u.layer END,
      (SELECT m.name FROM tensor_name m WHERE m.id = s.name_id),
      CASE s.stage WHEN 'layer' THEN ' of layer ' || s.layer ELSE '' END)
    FROM up u
    WHERE CASE WHEN u.layer = 0 AND s.layer <> 0 THEN (SELECT t.stage FROM tensor t WHERE t.id = u.tensor_id) = 'embed' END
      OR CASE WHEN s.report_source_id IS NULL THEN CASE WHEN s.alone AND s.report_source_id IS NULL THEN EXISTS (
        SELECT 1 FROM trace_row b
        WHERE b.run_id = s.run_id AND b.prompt_id = s.key_prompt_id AND b.side = s.side AND b.pos_id = s.key_pos_id
          AND b.layer = u.layer AND b.tensor_id = u.tensor_id) ELSE EXISTS (
        SELECT 1 FROM traced_pair b
        WHERE b.run_id = s.run_id AND b.prompt_id = s.key_prompt_id AND b.pos_id = s.key_pos_id
          AND b.layer = u.layer AND b.tensor_id = u.tensor_id) END
      ELSE EXISTS (
        SELECT 1 FROM report_ancestor_state b
        WHERE b.source_id = s.report_source_id AND b.run_id = s.run_id AND b.prompt_id = s.prompt_id
          AND b.layer = u.layer AND b.tensor_id = u.tensor_id) END
    ORDER BY u.layer, u.tensor_id LIMIT 1) AS segment,
  -- the whole layers between, as --layers takes them
  (WITH RECURSIVE up(layer, tensor_id) AS (
      SELECT CASE e.layer WHEN 'same' THEN s.layer WHEN 'previous' THEN s.layer - 1 ELSE s.last_layer END, e.from_id
      FROM edge e WHERE e.to_id = s.tensor_id AND e.kind <> 'alias'
      UNION
      SELECT CASE e.layer WHEN 'same' THEN u.layer WHEN 'previous' THEN u.layer - 1 ELSE s.last_layer END, e.from_id
      FROM up u CROSS JOIN edge e ON e.to_id = u.tensor_id AND e.kind <> 'alias'
      WHERE u.layer >= -1 AND CASE WHEN s.alone AND s.report_source_id IS NULL THEN NOT EXISTS (
        SELECT 1 FROM trace_row b
        WHERE b.run_id = s.run_id AND b.prompt_id = s.key_prompt_id AND b.side = s.side AND b.pos_id = s.key_pos_id
          AND b.layer = u.layer AND b.tensor_id = u.tensor_id) ELSE NOT EXISTS (
        SELECT 1 FROM traced_pair b
        WHERE b.run_id = s.run_id AND b.prompt_id = s.key_prompt_id AND b.pos_id = s.key_pos_id
          AND b.layer = u.layer AND b.tensor_id = u.tensor_id) END
      AND CASE WHEN s.report_source_id IS NULL THEN 1 ELSE NOT EXISTS (
        SELECT 1 FROM report_ancestor_state b
        WHERE b.source_id = s.report_source_id AND b.run_id = s.run_id AND b.prompt_id = s.prompt_id
          AND b.layer = u.layer AND b.tensor_id = u.tensor_id) END)
    SELECT CASE WHEN (SELECT t.stage FROM tensor t WHERE t.id = u.tensor_id) <> 'head' THEN
        (SELECT CASE WHEN r.first < r.last THEN r.first || '-' || r.last WHEN r.first = r.last THEN '' || r.first END
         FROM (SELECT u.layer + ((SELECT t.stage FROM tensor t WHERE t.id = u.tensor_id) = 'layer') AS first, CASE s.stage WHEN 'layer' THEN s.layer ELSE (SELECT CAST(a.value AS INTEGER) FROM attribute a WHERE a.run_id = s.run_id AND a.dim = 'n_layers' ORDER BY a.rank, a.value LIMIT 1) END - 1 AS last) r)
      END
    FROM up u
    WHERE CASE WHEN u.layer = 0 AND s.layer <> 0 THEN (SELECT t.stage FROM tensor t WHERE t.id = u.tensor_id) = 'embed' END
      OR CASE WHEN s.report_source_id IS NULL THEN CASE WHEN s.alone AND s.report_source_id IS NULL THEN EXISTS (
        SELECT 1 FROM trace_row b
        WHERE b.run_id = s.run_id AND b.prompt_id = s.key_prompt_id AND b.side = s.side AND b.pos_id = s.key_pos_id
          AND b.layer = u.layer AND b.tensor_id = u.tensor_id) ELSE EXISTS (
        SELECT 1 FROM traced_pair b
        WHERE b.run_id = s.run_id AND b.prompt_id = s.key_prompt_id AND b.pos_id = s.key_pos_id
          AND b.layer = u.layer AND b.tensor_id = u.tensor_id) END
      ELSE EXISTS (
        SELECT 1 FROM report_ancestor_state b
        WHERE b.source_id = s.report_source_id AND b.run_id = s.run_id AND b.prompt_id = s.prompt_id
          AND b.layer = u.layer AND b.tensor_id = u.tensor_id) END
    ORDER BY u.layer, u.tensor_id LIMIT 1) AS untraced_layers,
  -- 1 when a copy of the value, or every input, was traced on both sides
  EXISTS (
    SELECT 1 FROM edge e JOIN traced_pair b
      ON b.run_id = s.run_id AND b.prompt_id = s.key_prompt_id AND b.pos_id = s.key_pos_id
     AND b.layer = CASE e.layer WHEN 'same' THEN s.key_layer WHEN 'previous' THEN s.key_layer - 1 ELSE s.last_layer END
     AND b.tensor_id = e.from_id
    WHERE e.to_id = s.key_tensor_id AND e.kind IN ('copy', 'alias'))
  OR (
    EXISTS (
      SELECT 1 FROM edge e JOIN traced_pair b
        ON b.run_id = s.run_id AND b.prompt_id = s.key_prompt_id AND b.pos_id = s.key_pos_id
       AND b.layer = CASE e.layer WHEN 'same' THEN s.key_layer WHEN 'previous' THEN s.key_layer - 1 ELSE s.last_layer END
       AND b.tensor_id = e.from_id
      WHERE e.to_id = s.key_tensor_id)
    AND NOT EXISTS (
      SELECT 1 FROM edge e
      WHERE e.to_id = s.key_tensor_id AND e.kind = 'input' AND NOT EXISTS (
        SELECT 1 FROM traced_pair b
        WHERE b.run_id = s.run_id AND b.prompt_id = s.key_prompt_id AND b.pos_id = s.key_pos_id
          AND b.layer = CASE e.layer WHEN 'same' THEN s.key_layer WHEN 'previous' THEN s.key_layer - 1 ELSE s.last_layer END
          AND b.tensor_id = e.from_id))) AS inputs_complete
FROM comparison_graded s
WHERE s.axis = 'phases' AND s.other_run_id = s.run_id;
