-- One row per run that has a baseline (view lineage): what changed since.
CREATE VIEW change AS
SELECT
  r.name AS run,                                       -- run.name
  a.name AS baseline,                                  -- run.name
  d.change AS change,                                       -- BROKEN or FIXED: its verdict turned from PASS to FAIL or back, or rows that were lacking are there; SAME, ROUNDING, CHANGED: so did values, of both phases alike; INCOMPARABLE: nothing tells; NULL: UNJUDGED
  ifnull(v.verdict, 'UNJUDGED') AS verdict,            -- of the run: see run_verdict
  v.gate AS gate,                                      -- of the run: strict, numeric: which of the next two that is
  v.strict_verdict AS strict_verdict,                  -- of the run
  v.numeric_verdict AS numeric_verdict,                -- of the run
  ifnull(w.verdict, 'UNJUDGED') AS baseline_verdict,   -- of the baseline
  w.strict_verdict AS baseline_strict_verdict,         -- of the baseline
  w.numeric_verdict AS baseline_numeric_verdict,       -- of the baseline
  d.numeric_verdict AS values_verdict,                 -- of the comparison: see diff_verdict
  d.pairs AS pairs,                                    -- rows of both
  d.match AS match,                                    -- bitwise equal
  d.rounding AS rounding,                              -- DRIFT within tolerance
  d.divergent AS divergent,                            -- DRIFT beyond it
  d.nonfinite AS nonfinite,                            -- NaN or inf on either side
  d.only_a AS only_baseline,                           -- rows that the run does not have
  d.only_b AS only_run,                                -- rows that the baseline does not have
  d.prompt AS prompt, -- of the first difference in forward order, beyond rounding where there is one
  d.phase AS phase, -- of that
  d.pos_id AS pos_id, -- of that
  d.layer AS layer, -- of that
  d.tensor AS tensor, -- of that
  d.origin AS origin,                                  -- of that: ORIGIN, PROPAGATED, UNSAMPLED
  d.caused_by AS caused_by,                            -- what it follows from, in words, where that is the choice of another token
  d.why_not AS why_not,                                -- why the two cannot be compared
  l.lineage AS lineage,                                -- see view lineage
  r.date AS date,                                      -- of the run: YYYY-MM-DD; NULL unknown
  r.commit_sha AS commit_sha,                          -- of the run
  a.date AS baseline_date,                             -- of the baseline
  a.commit_sha AS baseline_commit_sha,                 -- of the baseline
  l.commit_ord AS commit_ord,                           -- of the run: parents before children; NULL where the commit is not known
  r.started_at AS started_at,                          -- of the run: ISO 8601 UTC; NULL unknown
  v.numeric_first_fail AS numeric_first_fail,             -- of the run: cause of its first pair beyond rounding
  v.numeric_layer AS numeric_fail_layer,             -- of that pair
  v.numeric_tensor AS numeric_fail_tensor, -- of that pair
  v.strict_first_fail AS strict_first_fail,            -- of the run: cause of its first fail by strict_verdict
  v.strict_layer AS strict_fail_layer,                 -- of that
  v.strict_tensor AS strict_fail_tensor,               -- of that
  v.first_fail AS first_fail,                          -- of the run: cause of its first fail
  v.layer AS fail_layer,                               -- of that
  v.tensor AS fail_tensor,                             -- of that
  a.id AS baseline_id,                                 -- run.id
  r.id AS run_id                                       -- run.id
FROM lineage l
JOIN run a ON a.id = l.baseline_id
JOIN run r ON r.id = l.run_id
LEFT JOIN change_since d ON d.run_id = r.id AND d.baseline_id = a.id AND d.level = 'run'
LEFT JOIN verdict v ON v.run_id = r.id AND v.level = 'run' AND v.item = ''
LEFT JOIN verdict w ON w.run_id = a.id AND w.level = 'run' AND w.item = '';
