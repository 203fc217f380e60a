-- One row per run: may it be merged? Its own verdict, and what changed since its baseline (view change),
-- differences that are waived (view waived) left out of both. `gate_from` is the same for a run and any other as
-- its baseline: WHERE run_id = ... AND baseline_id = ...; in a large file with waivers it is the faster one, too.
CREATE VIEW gate AS
SELECT
  x.run AS run,                                        -- run.name
  CASE x.gate WHEN 'strict' THEN x.strict_answer ELSE x.numeric_answer END AS answer, -- of that gate: PASS, or why not: FAIL, INCOMPLETE, NO_EVIDENCE, INCOMPARABLE
  x.gate AS gate,                                      -- which verdict leads: numeric, unless the mode promises equal bits or nothing measures the differences: strict
  x.strict_answer AS strict_answer,                    -- the same by the strict verdict, which ROUNDING since the baseline fails, too
  x.numeric_answer AS numeric_answer,                  -- by the numeric verdict
  x.verdict AS own_verdict,                            -- strict verdict of the run, waived differences left out
  x.numeric_verdict AS own_numeric_verdict,            -- numeric verdict of that
  v.verdict AS verdict,                                -- of the run as it is: see run_verdict
  v.numeric_verdict AS numeric_verdict,                -- of the run as it is
  CASE
    WHEN x.c_change IN ('SAME', 'ROUNDING') AND x.waived_changed_rows > 0 THEN 'CHANGED'
    WHEN x.c_change = 'SAME' AND x.waived_rows > 0 THEN 'ROUNDING'
    ELSE x.c_change
  END AS change,                                       -- see view change: what is waived is told, too; NULL: no baseline
  x.c_baseline AS baseline,                            -- run.name of what it is held against; NULL: nothing, so its own verdict alone counts
  x.c_why_not AS why_not,                              -- why the two cannot be compared
  v.pairs - x.pairs AS waived,                         -- pairs of the run that are waived: they fail the strict verdict
  x.fail_cause AS first_fail,                          -- cause of the first fail that is not waived
  (SELECT root_cause FROM cause WHERE name = x.fail_cause) AS root_cause, -- what the cause means
  (SELECT name FROM prompt WHERE id = x.fail_prompt_id) AS prompt, -- of that
  x.fail_layer AS layer,                               -- of that
  (SELECT name FROM tensor_name WHERE id = x.fail_name_id) AS tensor, -- of that, as the prefill row names it
  nullif(x.fail_pos_id, -1) AS pos_id,                 -- of that
  x.divergent_cause AS numeric_first_fail,             -- cause of the first beyond rounding that is not waived
  (SELECT root_cause FROM cause WHERE name = x.divergent_cause) AS numeric_root_cause, -- what the cause means
  (SELECT name FROM prompt WHERE id = x.divergent_prompt_id) AS numeric_prompt, -- of that
  x.divergent_layer AS numeric_layer,                  -- of that
  (SELECT name FROM tensor_name WHERE id = x.divergent_name_id) AS numeric_tensor, -- of that, as the prefill row names it
  nullif(x.divergent_pos_id, -1) AS numeric_pos_id,    -- of that
  x.c_prompt AS changed_prompt,                        -- of the first difference from the baseline in forward order, beyond rounding where there is one
  x.c_phase AS changed_phase,                          -- of that
  x.c_pos_id AS changed_pos_id,                        -- of that
  x.c_layer AS changed_layer,                          -- of that
  x.c_tensor AS changed_tensor,                        -- of that
  x.c_divergent AS changed_rows,                       -- rows that differ from the baseline's beyond rounding
  x.c_nonfinite AS nonfinite_rows,                     -- rows that are not finite, in either
  x.c_rounding AS rounded_rows,                        -- rows that differ from the baseline's by rounding
  x.c_only_baseline AS lost_rows,                      -- rows that only the baseline has
  x.c_only_run AS new_rows,                            -- rows that only the run has
  v.divergent - x.divergent AS waived_divergent,       -- pairs of the run that are waived and beyond rounding: they fail the numeric verdict
  ifnull(x.waived_rows, 0) AS waived_rows,             -- rows that differ from the baseline's and are waived
  ifnull(x.waived_changed_rows, 0) AS waived_changed_rows, -- of those, beyond rounding
  x.c_change AS unwaived_change,                       -- change, what is waived left out; BROKEN and CHANGED fail (numerically, unless rounding alone turned the strict verdict), INCOMPARABLE cannot pass
  CASE WHEN x.verdict = 'INCOMPLETE' OR x.numeric_verdict = 'INCOMPLETE' THEN
    CASE
      WHEN r.status IN ('running', 'failed') THEN 'it did not end (status ' || r.status || ')'
      WHEN x.unmet > 0 THEN CASE x.unmet WHEN 1 THEN '1 row that it declares or says it wrote is not there'
        ELSE printf('%d rows that it declares or says it wrote are not there', x.unmet) END || ifnull((
          SELECT ', first ' || t.name || CASE WHEN l.layer < 0 THEN '' ELSE ' of layer ' || l.layer END || ', prompt ' || q.name
            || CASE l.side WHEN 0 THEN ', prefill' ELSE ', decode' END
          FROM plan l
          JOIN tensor t ON t.id = l.tensor_id
          JOIN prompt q ON q.id = l.prompt_id
          WHERE l.run_id = x.c_run_id AND NOT EXISTS (
            SELECT 1 FROM trace_row y
            WHERE y.run_id = l.run_id AND y.prompt_id = l.prompt_id AND y.side = l.side
              AND y.layer = l.layer AND y.tensor_id = l.tensor_id AND y.pos_id >= 0 AND (y.flags & 8) = 0)
          ORDER BY q.id, l.layer < 0, l.layer, t.ord, l.side LIMIT 1), '')
      WHEN EXISTS (SELECT 1 FROM ingest_run i WHERE i.run_id = x.c_run_id) THEN 'an ingest of its files has not ended'
      ELSE (SELECT j.rejected || ' lines or files of it were not taken: ' || j.why FROM run_rejection j WHERE j.run_id = x.c_run_id)
    END END AS incomplete_why,                         -- why a verdict of its own is INCOMPLETE
  CASE WHEN x.c_baseline_id IS NULL THEN
    CASE
      WHEN (SELECT m.injected FROM lineage_member m WHERE m.run_id = x.c_run_id) THEN 'a fault was injected, so it is held against nothing'
      WHEN r.commit_sha IS NULL THEN 'no run of its lineage came before it'
      ELSE 'no run of its lineage is of a commit before its own' END
  END AS no_baseline_why,                              -- why it has no baseline
  r.experiment AS experiment,                          -- literal directory: b3_66_v2
  r.mode AS mode,                                      -- as_designed, kv_aligned, batch_invariant; NULL unknown
  r.date AS date,                                      -- YYYY-MM-DD; NULL unknown
  r.commit_sha AS commit_sha,                          -- commit of the engine that ran
  x.c_baseline_id AS baseline_id,                      -- run.id
  x.c_run_id AS run_id                                 -- run.id
FROM (
  SELECT
    b.*,
    CASE WHEN b.mode = 'batch_invariant' OR b.unmeasured > 0 AND b.numeric_verdict <> 'FAIL'
      THEN 'strict' ELSE 'numeric' END AS gate,
    CASE
      WHEN b.verdict = 'FAIL' OR b.c_change IN ('BROKEN', 'CHANGED', 'ROUNDING') THEN 'FAIL'
      WHEN b.verdict <> 'PASS' THEN b.verdict
      WHEN b.c_baseline_id IS NULL OR b.c_change IN ('SAME', 'FIXED') THEN 'PASS'
      ELSE 'INCOMPARABLE'
    END AS strict_answer,
    CASE
      WHEN b.numeric_verdict = 'FAIL' OR b.c_change = 'CHANGED' THEN 'FAIL'
      -- the strict verdict alone turned: by rounding, where values are the same but for that
      WHEN b.c_change = 'BROKEN' AND b.c_values_verdict = 'FAIL' THEN 'FAIL'
      WHEN b.numeric_verdict <> 'PASS' THEN b.numeric_verdict
      WHEN b.c_baseline_id IS NULL OR b.c_change IN ('SAME', 'FIXED', 'ROUNDING') THEN 'PASS'
      WHEN b.c_change = 'BROKEN' AND b.c_values_verdict = 'PASS' THEN 'PASS'
      ELSE 'INCOMPARABLE'
    END AS numeric_answer
  FROM (
    -- DISTINCT, which every row is: else SQLite copies all that makes a column to each place that names it
    SELECT DISTINCT
      q.*,
      (SELECT n.mode FROM run n WHERE n.id = q.run_id) AS mode,
      CASE WHEN q.c_why_not IS NULL THEN
        (SELECT count(*) FROM waived_row d WHERE d.run_id = q.c_run_id AND d.baseline_id = q.c_baseline_id)
      END AS waived_rows,
      CASE WHEN q.c_why_not IS NULL THEN
        (SELECT count(*) FROM waived_row d
         WHERE d.run_id = q.c_run_id AND d.baseline_id = q.c_baseline_id AND d.class = 'DIVERGENT')
      END AS waived_changed_rows
    FROM gate_row q) b
) x
-- by the column that everything below hangs on: a constant goes no further than one step
JOIN run r ON r.id = x.c_run_id
JOIN verdict_part v ON v.run_id = x.c_run_id AND v.prompt_id = 0
WHERE NOT EXISTS (SELECT 1 FROM directory_level d WHERE d.run_id = x.c_run_id);
