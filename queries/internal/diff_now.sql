-- diff_count with names, with the verdict to act on, and with where the first difference comes from. Judging
-- keeps these rows of a run and its baseline in the table run_change. Name both runs.
CREATE VIEW diff_now AS
SELECT
  v.run_a AS run_a, v.run_b AS run_b, v.level AS level,
  CASE WHEN (SELECT r.mode FROM run r WHERE r.id = v.run_b_id) IS 'batch_invariant' OR v.unknown > 0 AND v.rounding + v.divergent = 0
    THEN v.strict_verdict ELSE v.numeric_verdict END AS verdict,
  v.strict_verdict AS strict_verdict, v.numeric_verdict AS numeric_verdict, v.pairs AS pairs, v.compared AS compared,
  v.match AS match, v.rounding AS rounding, v.divergent AS divergent, v.unknown AS unknown, v.nonfinite AS nonfinite,
  v.incomparable AS incomparable, v.only_a AS only_a, v.only_b AS only_b,
  (SELECT q.name FROM prompt q WHERE q.id = v.prompt_id) AS prompt,
  (SELECT h.name FROM phase h WHERE h.id = v.phase_id) AS phase,
  nullif(v.pos_id, -1) AS pos_id, v.layer AS layer,
  (SELECT t.name FROM tensor t WHERE t.id = v.tensor_id) AS tensor,
  (SELECT q.name FROM prompt q WHERE q.id = v.numeric_prompt_id) AS numeric_prompt,
  (SELECT h.name FROM phase h WHERE h.id = v.numeric_phase_id) AS numeric_phase,
  nullif(v.numeric_pos_id, -1) AS numeric_pos_id, v.numeric_layer AS numeric_layer,
  (SELECT t.name FROM tensor t WHERE t.id = v.numeric_tensor_id) AS numeric_tensor,
  (SELECT CASE WHEN v.numeric_tensor_id IS NULL THEN o.origin ELSE o.numeric_origin END
   FROM comparison_origin o
   WHERE o.run_id = v.run_a_id AND o.other_run_id = v.run_b_id
     AND o.key_prompt_id = ifnull(v.numeric_prompt_id, v.prompt_id) AND o.side IN (0, 1, 2)
     AND o.phase_id = ifnull(v.numeric_phase_id, v.phase_id) AND o.key_pos_id = ifnull(v.numeric_pos_id, v.pos_id)
     AND o.key_layer = ifnull(v.numeric_layer, v.layer) AND o.key_tensor_id = ifnull(v.numeric_tensor_id, v.tensor_id)
     AND o.fails) AS origin,
  'another token at position '
    || CASE WHEN v.numeric_tensor_id IS NULL THEN v.token_at ELSE v.numeric_token_at END AS caused_by,
  v.why_not AS why_not, v.incomplete_why AS incomplete_why, v.run_a_id AS run_a_id, v.run_b_id AS run_b_id
FROM diff_count v;
