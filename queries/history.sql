-- One row per run, in order of date: how the verdict moved across commits, dates and modes.
CREATE VIEW history AS
SELECT
  v.experiment AS experiment,
  v.mode AS mode,
  v.date AS date,
  v.commit_sha AS commit_sha,
  v.run AS run,                                        -- run.name
  v.verdict AS verdict,                                -- see run_verdict
  v.first_fail AS first_fail,                          -- cause
  v.layer AS layer,                                    -- of the first fail
  v.tensor AS tensor,
  v.prompt AS prompt,
  v.numeric_verdict AS numeric_verdict,                -- see run_verdict
  v.evidence AS evidence,                              -- trace, report, none
  v.pairs AS pairs,
  v.run_id AS run_id
FROM run_verdict v
ORDER BY v.date, v.experiment, v.run_id;
