-- comparison_measured with the class of a distance, its place in forward order (forward_layer, then the tensor) and what
-- of the rows it covers.
CREATE VIEW comparison_graded AS
SELECT
  g.*,
  c.name AS class,
  -- 0 equal, 1 ROUNDING or EXPLAINED, 2 UNKNOWN, 3 DIVERGENT, 4 NONFINITE, AMBIGUOUS or CONFLICT; NULL when nothing decides
  CASE g.status WHEN 'MATCH' THEN 0 WHEN 'DRIFT' THEN c.grade ELSE CASE WHEN g.fails THEN 4 END END AS grade,
  -- layers by their number, then what comes after the stack
  CASE g.stage
    WHEN 'head' THEN 1000000
    WHEN 'embed' THEN CASE WHEN g.layer > 0 THEN g.layer ELSE 0 END
    ELSE CASE WHEN g.layer >= 0 THEN g.layer ELSE 1000000 END
  END AS forward_layer,
  CASE
    WHEN g.whole_tensor AND NOT g.same_run THEN 'tensor'
    WHEN g.hash_equal IS NOT NULL THEN CASE WHEN g.whole_hash THEN 'full' ELSE 'prefix' END
    WHEN g.sample_equal IS NOT NULL OR g.sketch_derived THEN 'sample'
    WHEN g.sketch_n IS NOT NULL THEN 'full'
  END AS scope,
  CASE WHEN g.hash_equal IS NULL THEN coalesce(CASE WHEN g.sample_equal IS NOT NULL THEN g.sample_n END, g.sketch_n)
    WHEN g.whole_hash THEN g.x_n ELSE min(g.x_n, 256) END AS compared_n
FROM (
  SELECT
    m.*,
    -- of a distance beyond the tolerance: how far the differences of its direct inputs explain it, and what its
    -- own storage in fewer bits does. Only what was traced explains, but for a cache of fewer bits.
    CASE WHEN m.status = 'DRIFT' AND m.rel_l2 > m.tolerance THEN (
      SELECT max(ifnull(e.gain * CASE
          WHEN x.run_id IS NULL OR y.run_id IS NULL THEN CASE WHEN e.kind = 'input' AND EXISTS (
            SELECT 1 FROM edge k WHERE k.to_id = e.from_id AND k.passes = 'stored') THEN u.ulp END
          WHEN x.hash = y.hash THEN 0.0
          ELSE coalesce(CASE e.passes WHEN 'absolute' THEN d.max_abs ELSE d.rel_l2 END,
            CASE e.passes WHEN 'absolute' THEN 4 * max(ifnull(abs(x.min), 0), ifnull(abs(x.max), 0)) ELSE 1 END
            * (SELECT sqrt(max(0, p.xx - 2 * p.xy + p.yy) / max(p.xx, p.yy)) FROM sketch_pair p
               WHERE p.x_id = x.sketch_id AND p.y_id = y.sketch_id)) END, 0) + CASE WHEN e.passes = 'stored' THEN u.ulp ELSE 0 END)
      FROM edge e
      -- greatest distance, relative, of two neighbours in the type that the cache of one of the runs has
      CROSS JOIN (
        SELECT ifnull(max(CASE a.value WHEN 'f16' THEN 0.0009765625 WHEN 'bf16' THEN 0.0078125 END), 0) AS ulp FROM attribute a
        WHERE a.run_id IN (m.run_id, m.other_run_id) AND a.dim = 'kv_cache') u
      LEFT JOIN trace_row x ON x.run_id = m.run_id AND x.prompt_id = m.key_prompt_id AND x.side = m.side
        AND x.pos_id = m.key_pos_id AND x.tensor_id = e.from_id AND x.layer = CASE e.layer
          WHEN 'same' THEN m.key_layer
          WHEN 'previous' THEN m.key_layer - 1
          ELSE (SELECT w.layer FROM trace_row w
            WHERE w.run_id = m.run_id AND w.prompt_id = m.key_prompt_id AND w.side = m.side AND w.pos_id = m.key_pos_id
              AND w.tensor_id = e.from_id ORDER BY w.layer DESC LIMIT 1) END
        AND CASE WHEN m.same_run THEN x.stands ELSE x.stands_in_phase AND x.phase_id = m.phase_id END
      LEFT JOIN trace_row y ON y.run_id = m.other_run_id AND y.prompt_id = m.other_prompt_id
        AND y.side = CASE WHEN m.same_run THEN 1 - m.side ELSE m.side END
        AND y.pos_id = x.pos_id AND y.tensor_id = x.tensor_id AND y.layer = x.layer AND y.n = x.n
        AND CASE WHEN m.same_run THEN y.stands ELSE y.stands_in_phase AND y.phase_id = m.phase_id END
      LEFT JOIN difference d ON d.run_id = CASE WHEN m.same_run THEN x.run_id END AND d.prompt_id = x.prompt_id
        AND d.pos_id = x.pos_id AND d.layer = x.layer AND d.tensor_id = x.tensor_id
        AND d.prefill_hash = x.hash AND d.decode_hash = y.hash
      WHERE e.to_id = m.key_tensor_id AND e.kind <> 'weight') END AS explained
  FROM comparison_measured m
) g
LEFT JOIN class c ON c.name = CASE g.status
    WHEN 'DRIFT' THEN CASE WHEN g.measure IS NULL OR g.tolerance IS NULL THEN 'UNKNOWN'
      ELSE CASE
        WHEN g.rel_l2 <= g.tolerance THEN 'ROUNDING'
        WHEN g.rel_l2 <= g.tolerance + g.explained THEN 'EXPLAINED'
        ELSE 'DIVERGENT' END END
    -- nothing but the sketches compares, and they are equal
    WHEN 'INCOMPARABLE' THEN
      CASE WHEN g.measure IS NOT NULL AND g.sketch_distance = 0 AND NOT ifnull(g.other_hash, 0) THEN 'ROUNDING' END
  END;
