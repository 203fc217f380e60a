-- comparison_cause with where a difference comes from: the nearest traced ancestors of the tensor in the data flow, by a
-- walk up the edges that stops at the first that was traced. Each column walks for itself, and only when it is asked
-- for. SQLite resolves the names in a common table expression where that is used: `s` is the comparison, `u` the trace
-- point at hand. NOT MATERIALIZED: otherwise SQLite fills a table, for every comparison, with each that is named twice.
CREATE VIEW comparison_origin AS
SELECT
  w.*,
  k.origin AS origin, k.numeric_origin AS numeric_origin
FROM (
  WITH RECURSIVE
    -- 1: u was traced: on both sides, or in both runs; for a row without a partner, on its side; in a report's table
    traced(yes) AS NOT MATERIALIZED (
      SELECT CASE
        WHEN s.report_source_id IS NOT NULL THEN EXISTS (
          SELECT 1 FROM report_pair b JOIN tensor_name n ON n.id = b.name_id
          WHERE b.source_id = s.report_source_id AND b.run_id = s.run_id AND b.prompt_id = s.prompt_id
            AND b.status <> 'MISSING' AND b.layer = u.layer AND n.tensor_id = u.tensor_id)
        WHEN s.alone THEN EXISTS (
          SELECT 1 FROM trace_row b
          WHERE b.run_id = s.run_id AND b.prompt_id = s.key_prompt_id AND b.side = s.side AND b.pos_id = s.key_pos_id
            AND b.layer = u.layer AND b.tensor_id = u.tensor_id)
        ELSE EXISTS (
          SELECT 1 FROM trace_row b CROSS JOIN trace_row c
          WHERE b.run_id = s.run_id AND b.prompt_id = s.key_prompt_id AND b.pos_id = s.key_pos_id
            AND b.side = CASE WHEN s.same_run THEN 0 ELSE s.side END AND b.layer = u.layer AND b.tensor_id = u.tensor_id
            AND c.run_id = s.other_run_id AND c.prompt_id = s.other_prompt_id AND c.pos_id = +b.pos_id
            AND c.side = CASE WHEN s.same_run THEN 1 ELSE s.side END AND c.layer = +b.layer AND c.tensor_id = +b.tensor_id
            AND CASE WHEN s.same_run THEN c.token_id IS b.token_id AND c.logical_tok_idx IS b.logical_tok_idx
              ELSE b.phase_id = s.phase_id AND c.phase_id = s.phase_id END)
      END),
    -- what is known of u: 1 matches, 2 differs by next to nothing, 3 cannot be compared, 4 differs by an eighth of what s
    -- does or more: an operation that loses a digit of it is no bug
    found(state) AS NOT MATERIALIZED (
      SELECT
        CASE WHEN b.status = 'MATCH' THEN 1 WHEN b.status = 'INCOMPARABLE' THEN CASE b.class WHEN 'ROUNDING' THEN 2 ELSE 3 END
          WHEN b.status = 'DRIFT' AND CASE WHEN s.rel_l2 IS NULL THEN b.grade = 1 ELSE 8 * b.rel_l2 < s.rel_l2 END THEN 2 ELSE 4 END
      FROM comparison_graded b
      WHERE s.report_source_id IS NULL AND NOT s.alone AND (b.compared OR b.fails)
        AND b.run_id = s.run_id AND b.other_run_id = s.other_run_id
        AND b.key_prompt_id = s.key_prompt_id AND b.key_pos_id = s.key_pos_id
        AND b.key_layer = u.layer AND b.key_tensor_id = u.tensor_id
        -- a comparison of a run's own phases has its row x on either side
        AND b.side IN (CASE WHEN s.same_run THEN 0 ELSE s.side END, CASE WHEN s.same_run THEN 1 ELSE s.side END)
        AND CASE WHEN s.same_run THEN 1 ELSE b.phase_id = s.phase_id END
      UNION ALL
      SELECT CASE WHEN b.nan > 0 OR b.inf > 0 OR b.flags & 1 THEN 4 ELSE 1 END FROM trace_row b
      WHERE s.report_source_id IS NULL AND s.alone
        AND b.run_id = s.run_id AND b.prompt_id = s.key_prompt_id AND b.side = s.side AND b.pos_id = s.key_pos_id
        AND b.layer = u.layer AND b.tensor_id = u.tensor_id
      UNION ALL
      SELECT CASE b.status WHEN 'MATCH' THEN 1 ELSE 4 END
      FROM report_pair b JOIN tensor_name n ON n.id = b.name_id
      WHERE s.report_source_id IS NOT NULL AND b.source_id = s.report_source_id AND b.run_id = s.run_id
        AND b.prompt_id = s.prompt_id AND b.status <> 'MISSING' AND b.layer = u.layer AND n.tensor_id = u.tensor_id),
    input(layer, tensor_id, kind) AS NOT MATERIALIZED (
      SELECT CASE e.layer WHEN 'same' THEN s.layer WHEN 'previous' THEN s.layer - 1 ELSE s.last_layer END, e.from_id, e.kind
      FROM edge e WHERE e.to_id = s.tensor_id),
    up(layer, tensor_id) AS NOT MATERIALIZED (
      SELECT i.layer, i.tensor_id FROM input i WHERE i.kind <> 'alias'
      UNION
      SELECT CASE e.layer WHEN 'same' THEN u.layer WHEN 'previous' THEN u.layer - 1 ELSE s.last_layer END, e.from_id
      FROM up u CROSS JOIN edge e ON e.to_id = u.tensor_id AND e.kind <> 'alias'
      WHERE u.layer >= -1 AND NOT (SELECT yes FROM traced)),
    -- the earliest of the nearest traced ancestors, or the embedding where a branch leads to it past all of them
    earliest(layer, tensor_id) AS NOT MATERIALIZED (
      SELECT u.layer, u.tensor_id FROM up u
      WHERE CASE WHEN u.layer = 0 AND s.layer <> 0 THEN (SELECT t.stage FROM tensor t WHERE t.id = u.tensor_id) = 'embed' END
        OR (SELECT yes FROM traced)
      ORDER BY u.layer, u.tensor_id LIMIT 1),
    stack(n_layers) AS NOT MATERIALIZED (
      SELECT CAST(a.value AS INTEGER) FROM attribute a
      WHERE a.run_id = s.run_id AND a.dim = 'n_layers' ORDER BY a.rank, a.value LIMIT 1)
  SELECT
    s.*,
    -- the worst state, NULL where no ancestor was traced
    (SELECT max((SELECT max(f.state) FROM found f)) FROM up u) AS worst_input,
    -- the first in forward order of those that differ, as tensor@layer
    CASE WHEN s.fails THEN (SELECT CASE WHEN a.state IN (2, 4) THEN
        (SELECT t.name FROM tensor t WHERE t.id = a.tensor_id) || '@' || a.layer END
     FROM (
       SELECT u.layer AS layer, u.tensor_id AS tensor_id, (SELECT max(f.state) FROM found f) AS state FROM up u
       LIMIT -1) a  -- what is found is named three times, and worked out once
     WHERE a.state IS NOT NULL
     ORDER BY a.state DESC, a.layer, a.tensor_id LIMIT 1) END AS caused_by,
    -- 1: whole layers lie between the earliest and here, or this is a copy from another layer that was not traced
    (SELECT CASE s.stage WHEN 'layer' THEN u.layer + (t.stage = 'layer') < s.layer
        ELSE CASE t.stage WHEN 'embed' THEN 1 WHEN 'layer' THEN u.layer + 1 IS NOT (SELECT k.n_layers FROM stack k) ELSE 0 END END
        OR EXISTS (SELECT 1 FROM edge e WHERE e.to_id = s.tensor_id AND e.kind = 'copy' AND e.layer <> 'same'
                     AND (e.layer <> 'previous' OR s.layer > 0))
          AND NOT EXISTS (SELECT 1 FROM input i WHERE i.tensor_id = u.tensor_id AND i.kind IN ('copy', 'alias'))
     FROM earliest u CROSS JOIN tensor t ON t.id = u.tensor_id) AS unsampled,
    CASE WHEN s.fails THEN (SELECT printf('between %s%s and %s%s', t.name,
        CASE WHEN t.stage <> 'layer' OR u.layer = s.layer THEN '' ELSE ' of layer ' || u.layer END,
        (SELECT m.name FROM tensor_name m WHERE m.id = s.name_id),
        CASE s.stage WHEN 'layer' THEN ' of layer ' || s.layer ELSE '' END)
     FROM earliest u CROSS JOIN tensor t ON t.id = u.tensor_id) END AS segment,
    -- the whole layers between, as --layers takes them
    CASE WHEN s.fails THEN (
      SELECT CASE WHEN r.first < r.last THEN r.first || '-' || r.last WHEN r.first = r.last THEN '' || r.first END
      FROM (
        SELECT u.layer + (t.stage = 'layer') AS first,
          CASE s.stage WHEN 'layer' THEN s.layer ELSE (SELECT k.n_layers FROM stack k) END - 1 AS last
        FROM earliest u CROSS JOIN tensor t ON t.id = u.tensor_id WHERE t.stage <> 'head') r) END AS untraced_layers,
    -- 1 when a copy of the value, or every input, was traced
    CASE
      WHEN EXISTS (SELECT 1 FROM input u WHERE u.kind IN ('copy', 'alias') AND (SELECT yes FROM traced)) THEN 1
      WHEN EXISTS (SELECT 1 FROM input u WHERE u.kind = 'input' AND NOT (SELECT yes FROM traced)) THEN 0
      ELSE EXISTS (SELECT 1 FROM input u WHERE (SELECT yes FROM traced))
    END AS inputs_complete
  FROM comparison_cause s
) w
LEFT JOIN origin k ON k.worst_input = CASE WHEN w.fails THEN CASE w.class WHEN 'EXPLAINED' THEN 4 ELSE ifnull(w.worst_input, 0) END END AND k.unsampled = ifnull(w.unsampled, 1);
