-- One row per run, in order of time: how the verdict moved across commits, dates and modes. What changed
-- against the run before it says view change.
CREATE VIEW history AS
SELECT
  v.experiment AS experiment,                          -- literal directory: b3_66_v2
  v.mode AS mode,                                      -- as_designed, kv_aligned, batch_invariant; NULL unknown
  v.date AS date,                                      -- YYYY-MM-DD; NULL unknown
  v.commit_sha AS commit_sha,                          -- commit of the engine that ran
  v.run AS run,                                        -- run.name
  v.verdict AS verdict,                                -- see run_verdict
  v.first_fail AS first_fail,                          -- cause
  v.layer AS layer,                                    -- of the first fail
  v.tensor AS tensor,                                  -- of the first fail
  v.prompt AS prompt,                                  -- of the first fail
  v.numeric_verdict AS numeric_verdict,                -- see run_verdict
  v.numeric_first_fail AS numeric_first_fail,          -- cause of the first pair beyond rounding
  v.numeric_layer AS numeric_layer,                    -- of that pair
  v.numeric_tensor AS numeric_tensor,                  -- of that pair
  m.injected AS injected,                              -- 1: with a fault on purpose
  r.started_at AS started_at,                          -- ISO 8601 UTC; NULL unknown
  r.dtype AS dtype,                                    -- of the arithmetic
  m.lineage AS lineage,                                -- see view lineage
  v.evidence AS evidence,                              -- trace, report, none
  v.pairs AS pairs,                                    -- with a row on both sides
  v.rounding AS rounding,                              -- DRIFT within tolerance
  v.divergent AS divergent,                            -- DRIFT beyond it
  v.nonfinite AS nonfinite,                            -- NaN or inf
  v.run_id AS run_id                                   -- run.id
FROM run_verdict v
JOIN run r ON r.id = v.run_id
JOIN lineage_member m ON m.run_id = v.run_id
ORDER BY v.date, r.started_at, v.experiment, length(v.run), v.run;
