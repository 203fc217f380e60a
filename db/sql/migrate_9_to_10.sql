-- Rows of a file of format version 8 or 9 into tables of version 10. The tables of before were renamed: *_9;
-- temp.new_sketch has the sketches, which db/schema.cpp has converted.

-- correct_standings() sets stands, ambiguous and the like afterwards.
INSERT INTO trace_row(run_id, prompt_id, side, pos_id, layer, tensor_id, nth, phase_id, step, name_id, stands,
    stands_in_phase, ambiguous, ambiguous_in_phase, token_id, logical_tok_idx, n, hash, min, max, mean, abs_sum,
    nan, inf, nz_count, flags, sample_id, sketch_id, ptr, offset_bytes, context_id, source_id, line)
  SELECT run_id, prompt_id, side, pos_id, layer, tensor_id, nth, phase_id, step, name_id, 1, 1, 0, 0, token_id,
    logical_tok_idx, n, hash, min, max, mean, abs_sum, nan, inf, nz_count, flags,
    (SELECT s.id FROM sample s WHERE s.id = t.vector_id),
    (SELECT k.sketch_id FROM temp.new_sketch k WHERE k.vector_id = t.vector_id),
    ptr, offset_bytes, context_id, source_id, line
  FROM trace_row_9 t;

INSERT INTO difference(run_id, prompt_id, pos_id, layer, tensor_id, prefill_hash, decode_hash, n, differing,
    first_at, last_at, rel_l2, max_abs, max_abs_at, max_ulp, heads, segments)
  SELECT run_id, prompt_id, pos_id, layer, tensor_id, prefill_hash, decode_hash, n, differing, first_at, last_at,
    rel_l2, max_abs, max_abs_at, max_ulp, heads, segments
  FROM difference_9;
INSERT INTO difference_part(difference_id, segment, share_ppm)
  WITH RECURSIVE part(segment) AS (SELECT 0 UNION ALL SELECT segment + 1 FROM part WHERE segment < 31)
  SELECT id, segment, CAST(round(1e6 * share) AS INTEGER)
  FROM (
    SELECT n.id AS id, s.segment AS segment, CASE s.segment
    WHEN 0 THEN d.p0 WHEN 1 THEN d.p1 WHEN 2 THEN d.p2 WHEN 3 THEN d.p3 WHEN 4 THEN d.p4 WHEN 5 THEN d.p5
    WHEN 6 THEN d.p6 WHEN 7 THEN d.p7 WHEN 8 THEN d.p8 WHEN 9 THEN d.p9 WHEN 10 THEN d.p10 WHEN 11 THEN d.p11
    WHEN 12 THEN d.p12 WHEN 13 THEN d.p13 WHEN 14 THEN d.p14 WHEN 15 THEN d.p15 WHEN 16 THEN d.p16 WHEN 17 THEN d.p17
    WHEN 18 THEN d.p18 WHEN 19 THEN d.p19 WHEN 20 THEN d.p20 WHEN 21 THEN d.p21 WHEN 22 THEN d.p22 WHEN 23 THEN d.p23
    WHEN 24 THEN d.p24 WHEN 25 THEN d.p25 WHEN 26 THEN d.p26 WHEN 27 THEN d.p27 WHEN 28 THEN d.p28 WHEN 29 THEN d.p29
    WHEN 30 THEN d.p30 WHEN 31 THEN d.p31
      END AS share
    FROM difference_9 d
    JOIN difference n ON n.run_id = d.run_id AND n.prompt_id = d.prompt_id AND n.pos_id = d.pos_id
      AND n.layer = d.layer AND n.tensor_id = d.tensor_id AND n.prefill_hash = d.prefill_hash
      AND n.decode_hash = d.decode_hash
    CROSS JOIN part s
    WHERE s.segment < d.segments
      AND NOT ifnull(d.rel_l2 <= 0.01 AND d.segments >= 8 AND d.in_segments = d.segments
        AND d.top_share <= 4.0 / d.segments, 0))  -- spread
  WHERE share > 0;

-- All runs are judged again afterwards.
DROP TABLE trace_row_9; DROP TABLE sketch_9; DROP TABLE difference_9; DROP TABLE temp.new_sketch;
DROP TABLE kept_tally; DROP TABLE kept_verdict; DROP TABLE kept_diff;
DROP TABLE IF EXISTS truth; DROP TABLE axis; DROP TABLE scope;
