-- What the gate goes by: the verdict of a run, waived differences left out, and what changed since its baseline
-- (c_*), all NULL where it has none.
CREATE VIEW gate_row AS
SELECT
  g.*, c.run_id AS c_run_id, c.baseline_id AS c_baseline_id, c.baseline AS c_baseline,
  CASE WHEN c.baseline_id IS NOT NULL THEN ifnull(c.change, 'INCOMPARABLE') END AS c_change,
  CASE WHEN c.baseline_id IS NULL THEN NULL WHEN c.change IS NULL THEN 'how they compare was not worked out'
    ELSE c.why_not END AS c_why_not,
  c.values_verdict AS c_values_verdict,
  c.prompt AS c_prompt, c.phase AS c_phase, c.pos_id AS c_pos_id, c.layer AS c_layer, c.tensor AS c_tensor,
  c.divergent AS c_divergent, c.nonfinite AS c_nonfinite, c.rounding AS c_rounding, c.only_baseline AS c_only_baseline, c.only_run AS c_only_run
FROM gated_part g
CROSS JOIN gated_since c ON c.run_id = g.run_id
WHERE g.prompt_id = 0;
