-- One row per run, in order of date: how the verdict moved across commits, dates and modes.
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
  v.evidence AS evidence,                              -- trace, report, none
  v.pairs AS pairs,                                    -- with a row on both sides
  v.run_id AS run_id                                   -- run.id
FROM run_verdict v
ORDER BY v.date, v.experiment, v.run;
