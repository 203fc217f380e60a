-- Keeps what the view diff_now says of a run (?1) and another (?2) as its baseline.
INSERT OR REPLACE INTO run_change
SELECT
  run_b_id, run_a_id, level, verdict, strict_verdict, numeric_verdict, pairs, match, rounding, divergent, unknown,
  nonfinite, only_a, only_b, CASE WHEN numeric_tensor IS NULL THEN prompt ELSE numeric_prompt END,
  CASE WHEN numeric_tensor IS NULL THEN phase ELSE numeric_phase END,
  nullif(CASE WHEN numeric_tensor IS NULL THEN pos_id ELSE numeric_pos_id END, -1),
  CASE WHEN numeric_tensor IS NULL THEN layer ELSE numeric_layer END,
  CASE WHEN numeric_tensor IS NULL THEN tensor ELSE numeric_tensor END, origin, caused_by, why_not,
  CASE level WHEN 'gate' THEN (SELECT min(w.until) FROM run_waiver w WHERE w.run_id = run_b_id) END
FROM diff_now
WHERE run_a_id = ?2 AND run_b_id = ?1 AND level IN ('run', 'gate')
