-- How two runs compare: what is kept of it, and diff_part of all others. Name both runs.
CREATE VIEW diff_row AS
SELECT
  k.run_a_id AS run_a_id, k.run_b_id AS run_b_id, k.run_a AS run_a, k.run_b AS run_b,
  k.why_not AS why_not, k.pairs AS pairs, k.compared AS compared, k.match AS match, k.rounding AS rounding,
  k.divergent AS divergent, k.unknown AS unknown, k.nonfinite AS nonfinite, k.incomparable AS incomparable,
  k.alike AS alike, k.only_a AS only_a, k.only_b AS only_b, k.prompt_id AS prompt_id,
  k.phase_id AS phase_id, k.pos_id AS pos_id, k.layer AS layer, k.tensor_id AS tensor_id,
  k.divergent_prompt_id AS divergent_prompt_id, k.divergent_phase_id AS divergent_phase_id,
  k.divergent_pos_id AS divergent_pos_id, k.divergent_layer AS divergent_layer,
  k.divergent_tensor_id AS divergent_tensor_id
FROM kept_diff_row k
UNION ALL
SELECT
  p.run_a_id, p.run_b_id, p.run_a, p.run_b,
  p.why_not, p.pairs, p.compared, p.match, p.rounding, p.divergent, p.unknown, p.nonfinite, p.incomparable, p.alike, p.only_a, p.only_b,
  p.prompt_id, p.phase_id, p.pos_id, p.layer, p.tensor_id,
  p.divergent_prompt_id, p.divergent_phase_id, p.divergent_pos_id, p.divergent_layer, p.divergent_tensor_id
FROM diff_part p;
