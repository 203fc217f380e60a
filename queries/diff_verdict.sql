-- One row per two runs: do they compute the same, and where do they first diverge? Name both: WHERE
-- run_a = '...' AND run_b = '...'.
CREATE VIEW diff_verdict AS
SELECT
  v.run_a AS run_a,                                    -- run.name
  v.run_b AS run_b,                                    -- run.name
  v.verdict AS verdict,                                -- the one to act on: strict_verdict where the mode promises equal bits, or where no difference is measured; else numeric_verdict
  v.strict_verdict AS strict_verdict,                  -- FAIL, NO_EVIDENCE, INCOMPARABLE, INCOMPLETE: one of the two is not whole; PASS: all rows are bitwise equal
  v.numeric_verdict AS numeric_verdict,                -- the same, ROUNDING read as MATCH and UNKNOWN as INCOMPARABLE
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
  v.prompt AS prompt, -- of the first difference, in forward order
  v.phase AS phase, -- prefill_last, prefill, decode0, decode
  nullif(v.pos_id, -1) AS pos_id,                      -- absolute 0-based position
  v.layer AS layer,                                    -- of the first difference
  v.tensor AS tensor, -- canonical
  v.numeric_prompt AS numeric_prompt, -- of the first beyond rounding
  v.numeric_phase AS numeric_phase, -- of that
  nullif(v.numeric_pos_id, -1) AS numeric_pos_id,      -- of that
  v.numeric_layer AS numeric_layer,                    -- of that
  v.numeric_tensor AS numeric_tensor, -- of that
  v.origin AS origin,                                  -- of the first beyond rounding, else of the first: ORIGIN, PROPAGATED, UNSAMPLED, as in `pair`; NULL where only run_b has it
  v.caused_by AS caused_by,                            -- what it follows from, in words, where that is the choice of another token
  v.why_not IS NULL AS comparable,                     -- 0: rows of the one cannot be compared with rows of the other
  v.why_not AS why_not,                                -- the reason, in words
  v.incomplete_why AS incomplete_why,                  -- which of the two is not whole, the first by name, and why; NULL: both are
  v.run_a_id AS run_a_id,                              -- run.id
  v.run_b_id AS run_b_id                               -- run.id
FROM diff_now v
WHERE v.level = 'run';
