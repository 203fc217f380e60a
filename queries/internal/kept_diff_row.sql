-- diff_part of the runs of which it is kept.
CREATE VIEW kept_diff_row AS
SELECT
  k.run_a_id AS run_a_id, k.run_b_id AS run_b_id, a.name AS run_a, b.name AS run_b,
  k.why_not AS why_not, k.pairs AS pairs, k.compared AS compared, k.match AS match, k.rounding AS rounding,
  k.divergent AS divergent, k.unknown AS unknown, k.nonfinite AS nonfinite, k.incomparable AS incomparable,
  k.alike AS alike, k.only_a AS only_a, k.only_b AS only_b, k.prompt_id AS prompt_id,
  k.phase_id AS phase_id, k.pos_id AS pos_id, k.layer AS layer, k.tensor_id AS tensor_id,
  k.divergent_prompt_id AS divergent_prompt_id, k.divergent_phase_id AS divergent_phase_id,
  k.divergent_pos_id AS divergent_pos_id, k.divergent_layer AS divergent_layer,
  k.divergent_tensor_id AS divergent_tensor_id
FROM kept_diff k
JOIN run a ON a.id = k.run_a_id
JOIN run b ON b.id = k.run_b_id;
