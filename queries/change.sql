-- One row per run that has a baseline (view lineage): what changed since.
CREATE VIEW change AS
SELECT
  r.name AS run,                                       -- run.name
  a.name AS baseline,                                  -- run.name
  CASE
    WHEN d.run_a_id IS NULL THEN NULL
    WHEN d.why_not IS NOT NULL THEN 'INCOMPARABLE'
    -- each verdict is named once: SQLite copies what it is made of to where it is named
    ELSE CASE max(
        CASE w.verdict || ' ' || v.verdict
          WHEN 'PASS FAIL' THEN 2
          WHEN 'FAIL PASS' THEN 1
          -- rows that the baseline lacked are there, and what it had is as it was
          WHEN 'INCOMPLETE PASS' THEN d.only_b > 0 AND d.only_a + d.divergent + d.nonfinite + d.unknown = 0
          ELSE 0 END,
        CASE w.numeric_verdict || ' ' || v.numeric_verdict
          WHEN 'PASS FAIL' THEN 2
          WHEN 'FAIL PASS' THEN 1
          WHEN 'INCOMPLETE PASS' THEN d.only_b > 0 AND d.only_a + d.divergent + d.nonfinite + d.unknown = 0
          ELSE 0 END)
      WHEN 2 THEN 'BROKEN'
      WHEN 1 THEN 'FIXED'
      ELSE CASE
        WHEN d.verdict IN ('PASS', 'INCOMPLETE') THEN 'SAME'
        ELSE CASE d.numeric_verdict
          WHEN 'PASS' THEN 'ROUNDING'
          WHEN 'INCOMPLETE' THEN 'ROUNDING'
          WHEN 'FAIL' THEN 'CHANGED'
          ELSE 'INCOMPARABLE' END
        END
      END
  END AS change,                                       -- BROKEN or FIXED: a verdict of its own turned from PASS to FAIL or back, or rows that were lacking are there; SAME, ROUNDING, CHANGED: so did values, of both phases alike; INCOMPARABLE: nothing tells
  v.verdict AS verdict,                                -- of the run: see run_verdict
  v.numeric_verdict AS numeric_verdict,                -- of the run
  w.verdict AS baseline_verdict,                       -- of the baseline
  w.numeric_verdict AS baseline_numeric_verdict,       -- of the baseline
  d.numeric_verdict AS values_verdict,                 -- of the comparison: see diff_verdict
  d.pairs AS pairs,                                    -- rows of both
  d.match AS match,                                    -- bitwise equal
  d.rounding AS rounding,                              -- DRIFT within tolerance
  d.divergent AS divergent,                            -- DRIFT beyond it
  d.nonfinite AS nonfinite,                            -- NaN or inf on either side
  d.only_a AS only_baseline,                           -- rows that the run does not have
  d.only_b AS only_run,                                -- rows that the baseline does not have
  CASE WHEN d.numeric_tensor IS NULL THEN d.prompt ELSE d.numeric_prompt END AS prompt, -- of the first difference in forward order, beyond rounding where there is one
  CASE WHEN d.numeric_tensor IS NULL THEN d.phase ELSE d.numeric_phase END AS phase, -- of that
  CASE WHEN d.numeric_tensor IS NULL THEN d.pos_id ELSE d.numeric_pos_id END AS pos_id, -- of that
  CASE WHEN d.numeric_tensor IS NULL THEN d.layer ELSE d.numeric_layer END AS layer, -- of that
  CASE WHEN d.numeric_tensor IS NULL THEN d.tensor ELSE d.numeric_tensor END AS tensor, -- of that
  d.origin AS origin,                                  -- of that: ORIGIN, PROPAGATED, UNSAMPLED
  d.caused_by AS caused_by,                            -- what it follows from, in words, where that is the choice of another token
  d.why_not AS why_not,                                -- why the two cannot be compared
  l.lineage AS lineage,                                -- see view lineage
  r.date AS date,                                      -- of the run: YYYY-MM-DD; NULL unknown
  r.commit_sha AS commit_sha,                          -- of the run
  a.date AS baseline_date,                             -- of the baseline
  a.commit_sha AS baseline_commit_sha,                 -- of the baseline
  (SELECT c.ord FROM commit_node c WHERE c.sha = l.sha) AS commit_ord, -- of the run: parents before children; NULL where the commit is not known
  r.started_at AS started_at,                          -- of the run: ISO 8601 UTC; NULL unknown
  v.divergent_cause AS numeric_first_fail,             -- of the run: cause of its first pair beyond rounding
  v.divergent_layer AS numeric_fail_layer,             -- of that pair
  (SELECT name FROM tensor_name WHERE id = v.divergent_name_id) AS numeric_fail_tensor, -- of that pair
  v.fail_cause AS first_fail,                          -- of the run: cause of its first fail
  v.fail_layer AS fail_layer,                          -- of that
  (SELECT name FROM tensor_name WHERE id = v.fail_name_id) AS fail_tensor, -- of that
  a.id AS baseline_id,                                 -- run.id
  r.id AS run_id                                       -- run.id, as verdict_part below needs it: a constant goes no further than one step
FROM run_baseline l
CROSS JOIN run a ON a.id = l.baseline_id  -- worked out once, so named once
CROSS JOIN run r ON r.id = l.run_id
LEFT JOIN baseline_diff d ON d.run_a_id = a.id AND d.run_b_id = r.id
CROSS JOIN verdict_part v ON v.run_id = r.id AND v.prompt_id = 0
CROSS JOIN verdict_part w ON w.run_id = a.id AND w.prompt_id = 0;
