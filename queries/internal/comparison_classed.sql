-- comparison_status with how large a difference is, and where it stands in forward order: forward_layer, then
-- tensor_id, then the position.
CREATE VIEW comparison_classed AS
SELECT
  s.*,
  c.name AS class,
  -- layers by their number, then what comes after the stack
  CASE s.stage
    WHEN 'head' THEN 1000000
    WHEN 'embed' THEN CASE WHEN s.layer > 0 THEN s.layer ELSE 0 END
    ELSE CASE WHEN s.layer >= 0 THEN s.layer ELSE 1000000 END
  END AS forward_layer,
  -- whether what was measured of the model decides: calibrated, shipped
  CASE s.tolerance < (SELECT max(t.rel_l2) FROM run_tolerance t
      WHERE t.run_id IN (s.run_id, s.other_run_id) AND t.tensor_id = s.tensor_id)
    WHEN 1 THEN 'calibrated' WHEN 0 THEN 'shipped' END AS tolerance_source,
  -- 0 equal, 1 ROUNDING, 2 UNKNOWN, 3 DIVERGENT, 4 NONFINITE, AMBIGUOUS or CONFLICT; NULL when nothing decides
  CASE WHEN s.status = 'MATCH' THEN 0 WHEN s.status = 'DRIFT' THEN c.grade WHEN s.fails THEN 4 END AS grade
FROM comparison_status s
LEFT JOIN class c ON c.name = CASE s.status
    WHEN 'DRIFT' THEN
      -- rel_l2 is worked out wherever it is named
      CASE CASE WHEN s.measure IS NOT NULL THEN s.rel_l2 <= ifnull(s.tolerance, -1) END WHEN 1 THEN 'ROUNDING' WHEN 0 THEN 'DIVERGENT' ELSE 'UNKNOWN' END
    -- nothing but the sketches compares, and they are equal
    WHEN 'INCOMPARABLE' THEN CASE WHEN s.sketch_equal AND s.rel_l2 = 0 AND NOT s.other_hash IS TRUE THEN 'ROUNDING' END
  END;
