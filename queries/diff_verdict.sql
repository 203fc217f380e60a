-- One row per two runs: do they compute the same, and where do they first part ways? Name both: WHERE
-- run_a = '...' AND run_b = '...'.
CREATE VIEW diff_verdict AS
SELECT
  v.run_a AS run_a,                                    -- run.name
  v.run_b AS run_b,                                    -- run.name
  CASE
    WHEN v.why_not IS NOT NULL THEN 'INCOMPARABLE'
    WHEN v.compared = 0 THEN 'NO_EVIDENCE'
    WHEN v.nonfinite + v.divergent + v.only_a + v.only_b + v.rounding + v.unknown > 0 THEN 'FAIL'
    WHEN v.incomparable > 0 THEN 'INCOMPARABLE'
    WHEN EXISTS (SELECT 1 FROM unended_run u WHERE u.run_id IN (v.run_a_id, v.run_b_id)) THEN 'INCOMPLETE'
    ELSE 'PASS'
  END AS verdict,                                      -- FAIL, NO_EVIDENCE, INCOMPARABLE, INCOMPLETE: one of the two did not end; PASS
  CASE
    WHEN v.why_not IS NOT NULL THEN 'INCOMPARABLE'
    WHEN v.compared = 0 THEN 'NO_EVIDENCE'
    WHEN v.divergent_tensor_id IS NOT NULL OR v.only_a + v.only_b > 0 THEN 'FAIL'
    WHEN v.unknown + v.incomparable - v.alike > 0 THEN 'INCOMPARABLE'
    WHEN EXISTS (SELECT 1 FROM unended_run u WHERE u.run_id IN (v.run_a_id, v.run_b_id)) THEN 'INCOMPLETE'
    ELSE 'PASS'
  END AS numeric_verdict,                              -- the same, ROUNDING read as MATCH and UNKNOWN as INCOMPARABLE
  v.pairs AS pairs,                                    -- rows of both
  v.compared AS compared,                              -- of those, where something decides
  v.match AS match,                                    -- bitwise equal
  v.rounding AS rounding,                              -- DRIFT within tolerance
  v.divergent AS divergent,                            -- DRIFT beyond it
  v.unknown AS unknown,                                -- DRIFT with nothing to measure it by; AMBIGUOUS, CONFLICT
  v.nonfinite AS nonfinite,                            -- NaN or inf on either side
  v.incomparable AS incomparable,                      -- nothing decides, or another token
  v.only_a AS only_a,                                  -- rows that run_b does not have
  v.only_b AS only_b,                                  -- rows that run_a does not have
  (SELECT name FROM prompt WHERE id = v.prompt_id) AS prompt, -- of the first difference, in forward order
  (SELECT name FROM phase WHERE id = v.phase_id) AS phase, -- prefill_last, prefill, decode0, decode
  nullif(v.pos_id, -1) AS pos_id,                      -- absolute 0-based position
  v.layer AS layer,                                    -- of the first difference
  (SELECT name FROM tensor WHERE id = v.tensor_id) AS tensor, -- canonical
  (SELECT name FROM prompt WHERE id = v.divergent_prompt_id) AS numeric_prompt, -- of the first beyond rounding
  (SELECT name FROM phase WHERE id = v.divergent_phase_id) AS numeric_phase, -- of that
  nullif(v.divergent_pos_id, -1) AS numeric_pos_id,    -- of that
  v.divergent_layer AS numeric_layer,                  -- of that
  (SELECT name FROM tensor WHERE id = v.divergent_tensor_id) AS numeric_tensor, -- of that
  v.origin AS origin,                                  -- of the first beyond rounding, else of the first: ORIGIN, PROPAGATED, UNSAMPLED, as in `pair`; NULL where only run_b has it
  v.caused_by AS caused_by,                            -- what it follows from, in words, where that is the choice of another token
  v.why_not IS NULL AS comparable,                     -- 0: rows of the one cannot be held against rows of the other
  v.why_not AS why_not,                                -- the reason, in words
  coalesce(
    (SELECT u.why FROM unended_run u WHERE u.run_id = v.run_a_id),
    (SELECT u.why FROM unended_run u WHERE u.run_id = v.run_b_id)
  ) AS incomplete_why,                               -- which of the two did not end, so that rows of it may be lacking; NULL: both did
  v.run_a_id AS run_a_id,                              -- run.id
  v.run_b_id AS run_b_id                               -- run.id
FROM diff_row v;
