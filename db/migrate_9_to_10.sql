-- Rows of a file of format version 8 or 9 into tables of version 10. The tables of before were renamed: *_9;
-- temp.new_sketch has the sketches, which migration.cpp has converted.

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

-- All runs are judged again afterwards. The views of before are dropped by name: a view that somebody else made
-- stays, and nothing in a file tells the two apart.
DROP TABLE trace_row_9; DROP TABLE sketch_9; DROP TABLE difference_9;
DROP TABLE kept_tally; DROP TABLE kept_verdict; DROP TABLE kept_diff;
DROP TABLE IF EXISTS truth; DROP TABLE axis; DROP TABLE scope;
DROP VIEW IF EXISTS ancestor_state; DROP VIEW IF EXISTS announced_prompt;
DROP VIEW IF EXISTS baseline_candidate; DROP VIEW IF EXISTS baseline_diff;
DROP VIEW IF EXISTS baseline_diff_part; DROP VIEW IF EXISTS baseline_diff_row; DROP VIEW IF EXISTS change;
DROP VIEW IF EXISTS comparison; DROP VIEW IF EXISTS comparison_classed;
DROP VIEW IF EXISTS comparison_graded; DROP VIEW IF EXISTS comparison_origin;
DROP VIEW IF EXISTS comparison_placed; DROP VIEW IF EXISTS comparison_status; DROP VIEW IF EXISTS diagnosis;
DROP VIEW IF EXISTS diff_part; DROP VIEW IF EXISTS diff_propagation; DROP VIEW IF EXISTS diff_row;
DROP VIEW IF EXISTS diff_tensor; DROP VIEW IF EXISTS diff_verdict; DROP VIEW IF EXISTS directory_level;
DROP VIEW IF EXISTS drift; DROP VIEW IF EXISTS drift_gain; DROP VIEW IF EXISTS event_status;
DROP VIEW IF EXISTS failing_place; DROP VIEW IF EXISTS failure_breakdown; DROP VIEW IF EXISTS first_fail;
DROP VIEW IF EXISTS gate; DROP VIEW IF EXISTS gate_case; DROP VIEW IF EXISTS gate_from;
DROP VIEW IF EXISTS gate_row; DROP VIEW IF EXISTS gate_row_from; DROP VIEW IF EXISTS gated_baseline_diff;
DROP VIEW IF EXISTS gated_baseline_diff_part; DROP VIEW IF EXISTS gated_baseline_diff_row;
DROP VIEW IF EXISTS gated_baseline_pair; DROP VIEW IF EXISTS gated_change;
DROP VIEW IF EXISTS gated_change_from; DROP VIEW IF EXISTS gated_diff; DROP VIEW IF EXISTS gated_diff_part;
DROP VIEW IF EXISTS gated_diff_row; DROP VIEW IF EXISTS gated_pair; DROP VIEW IF EXISTS gated_part;
DROP VIEW IF EXISTS gated_since; DROP VIEW IF EXISTS gated_tally; DROP VIEW IF EXISTS gated_verdict_row;
DROP VIEW IF EXISTS history; DROP VIEW IF EXISTS kept_diff_row; DROP VIEW IF EXISTS kept_gated_diff_row;
DROP VIEW IF EXISTS kept_gated_verdict_row; DROP VIEW IF EXISTS kept_tally_row;
DROP VIEW IF EXISTS kept_verdict_row; DROP VIEW IF EXISTS kv_alignment; DROP VIEW IF EXISTS kv_lost;
DROP VIEW IF EXISTS lineage; DROP VIEW IF EXISTS lm_head_delta; DROP VIEW IF EXISTS located_difference;
DROP VIEW IF EXISTS lone_row; DROP VIEW IF EXISTS moved_row; DROP VIEW IF EXISTS no_placed_row;
DROP VIEW IF EXISTS no_waived_row; DROP VIEW IF EXISTS other_baseline; DROP VIEW IF EXISTS pair;
DROP VIEW IF EXISTS place_grade; DROP VIEW IF EXISTS place_origin; DROP VIEW IF EXISTS place_value;
DROP VIEW IF EXISTS plain_position; DROP VIEW IF EXISTS propagation; DROP VIEW IF EXISTS refuted_readout;
DROP VIEW IF EXISTS regression; DROP VIEW IF EXISTS report_ancestor_state;
DROP VIEW IF EXISTS report_claimed; DROP VIEW IF EXISTS report_conflict; DROP VIEW IF EXISTS rows_lost;
DROP VIEW IF EXISTS run_baseline; DROP VIEW IF EXISTS run_diff; DROP VIEW IF EXISTS run_evidence;
DROP VIEW IF EXISTS run_lineage; DROP VIEW IF EXISTS run_noise; DROP VIEW IF EXISTS run_pair;
DROP VIEW IF EXISTS run_rejection; DROP VIEW IF EXISTS run_tolerance; DROP VIEW IF EXISTS run_verdict;
DROP VIEW IF EXISTS run_waiver; DROP VIEW IF EXISTS same_pair; DROP VIEW IF EXISTS sketch_pair;
DROP VIEW IF EXISTS start_value; DROP VIEW IF EXISTS stated_attribute; DROP VIEW IF EXISTS tally;
DROP VIEW IF EXISTS trace; DROP VIEW IF EXISTS traced_pair; DROP VIEW IF EXISTS undiffed_pair;
DROP VIEW IF EXISTS unended_run; DROP VIEW IF EXISTS ungated_run; DROP VIEW IF EXISTS unjudged_run;
DROP VIEW IF EXISTS unkept_gated_verdict_row; DROP VIEW IF EXISTS unkept_pair;
DROP VIEW IF EXISTS unkept_tally; DROP VIEW IF EXISTS unkept_verdict_row;
DROP VIEW IF EXISTS unsummed_tally; DROP VIEW IF EXISTS unwaived_comparison;
DROP VIEW IF EXISTS verdict_part; DROP VIEW IF EXISTS verdict_row; DROP VIEW IF EXISTS waived;
DROP VIEW IF EXISTS waived_row;
