-- What the gate knows of a run and its baseline: change, waived differences left out, and a row of NULLs where
-- there is no baseline.
CREATE VIEW gated_since AS
SELECT
  c.run_id AS run_id, c.baseline_id AS baseline_id, c.baseline AS baseline, c.change AS change, c.why_not AS why_not,
  c.values_verdict AS values_verdict,
  c.prompt AS prompt, c.phase AS phase, c.pos_id AS pos_id, c.layer AS layer, c.tensor AS tensor,
  c.divergent AS divergent, c.nonfinite AS nonfinite, c.rounding AS rounding, c.only_baseline AS only_baseline, c.only_run AS only_run
FROM gated_change c
UNION ALL
SELECT b.run_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM run_baseline b
WHERE b.baseline_id IS NULL;
