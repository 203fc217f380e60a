-- One row per run, in order of time (run_order has that of commits): how the verdict moved across commits, dates and
-- modes. What changed against the run before it says view change.
CREATE VIEW history AS
SELECT
  r.experiment AS experiment,                          -- literal directory: b3_66_v2
  r.mode AS mode,                                      -- as_designed, kv_aligned, batch_invariant; NULL unknown
  r.date AS date,                                      -- YYYY-MM-DD; NULL unknown
  r.commit_sha AS commit_sha,                          -- commit of the engine that ran
  r.name AS run,                                       -- run.name
  ifnull(v.verdict, 'UNJUDGED') AS verdict,            -- see run_verdict
  v.first_fail AS first_fail,                          -- cause
  v.layer AS layer,                                    -- of the first fail
  v.tensor AS tensor,                                  -- of the first fail
  v.prompt AS prompt,                                  -- of the first fail
  ifnull(v.strict_verdict, 'UNJUDGED') AS strict_verdict, -- see run_verdict
  v.strict_first_fail AS strict_first_fail,            -- cause of the first that is not bitwise equal
  v.strict_layer AS strict_layer,                      -- of that
  v.strict_tensor AS strict_tensor,                    -- of that
  ifnull(v.numeric_verdict, 'UNJUDGED') AS numeric_verdict, -- see run_verdict
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
  r.id AS run_id                                       -- run.id
FROM run r
JOIN lineage_member m ON m.run_id = r.id
LEFT JOIN verdict v ON v.run_id = r.id AND v.level = 'run' AND v.item = ''
WHERE NOT EXISTS (SELECT 1 FROM directory_level d WHERE d.run_id = r.id)
ORDER BY m.date, m.started_at, r.id;
