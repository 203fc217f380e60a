-- One row per run and run that it is compared with, its baseline (own_baseline = 1), and others where somebody
-- asked: may it be merged? Its own verdict, and what changed since its baseline (view change), differences that
-- are waived (view waived) left out of both. What is waived counts again once its last day is over.
CREATE VIEW gate AS
SELECT
  r.name AS run,                                       -- run.name
  CASE x.gate WHEN 'strict' THEN x.strict_answer ELSE x.numeric_answer END AS answer, -- of that gate: PASS, or why not: FAIL, INCOMPLETE, NO_EVIDENCE, INCOMPARABLE, UNJUDGED
  x.gate AS gate,                                      -- strict or numeric: which verdict is the one to act on
  x.strict_answer AS strict_answer,                    -- the same by the strict verdict, which ROUNDING since the baseline fails, too
  x.numeric_answer AS numeric_answer,                  -- by the numeric verdict
  ifnull(g.verdict, 'UNJUDGED') AS own_verdict,        -- verdict of the run, waived differences left out
  ifnull(g.strict_verdict, 'UNJUDGED') AS own_strict_verdict, -- strict verdict of that
  ifnull(g.numeric_verdict, 'UNJUDGED') AS own_numeric_verdict, -- numeric verdict of that
  ifnull(v.verdict, 'UNJUDGED') AS verdict,            -- of the run as it is: see run_verdict
  v.strict_verdict AS strict_verdict,                  -- of the run as it is
  v.numeric_verdict AS numeric_verdict,                -- of the run as it is
  CASE
    WHEN c.change IN ('SAME', 'ROUNDING') AND e.divergent > c.divergent THEN 'CHANGED'
    WHEN c.change = 'SAME' AND e.pairs > c.pairs THEN 'ROUNDING'
    ELSE c.change
  END AS change,                                       -- see view change: what is waived is told, too; NULL: no baseline
  a.name AS baseline,                                  -- run.name of what it is compared with; NULL: nothing, so its own verdict alone counts
  CASE WHEN x.baseline_id IS NOT NULL AND c.change IS NULL THEN 'how they compare was not worked out' ELSE c.why_not END AS why_not, -- why the two cannot be compared
  v.drift - g.drift AS waived,                         -- pairs of the run that are waived: they fail the strict verdict
  g.strict_first_fail AS strict_first_fail,            -- cause of the first fail that is not waived
  (SELECT k.root_cause FROM cause k WHERE k.name = g.strict_first_fail) AS strict_root_cause, -- what the cause means
  g.strict_prompt AS strict_prompt,                    -- of that
  g.strict_layer AS strict_layer,                      -- of that
  g.strict_tensor AS strict_tensor,                    -- of that, as the prefill row names it
  g.strict_pos_id AS strict_pos_id,                    -- of that
  g.numeric_first_fail AS numeric_first_fail,          -- cause of the first beyond rounding that is not waived
  (SELECT k.root_cause FROM cause k WHERE k.name = g.numeric_first_fail) AS numeric_root_cause, -- what the cause means
  g.numeric_prompt AS numeric_prompt,                  -- of that
  g.numeric_layer AS numeric_layer,                    -- of that
  g.numeric_tensor AS numeric_tensor,                  -- of that, as the prefill row names it
  g.numeric_pos_id AS numeric_pos_id,                  -- of that
  g.first_fail AS first_fail,                          -- of the two, that of the verdict to act on
  g.root_cause AS root_cause,                          -- what the cause means
  g.prompt AS prompt,                                  -- of that
  g.layer AS layer,                                    -- of that
  g.tensor AS tensor,                                  -- of that
  g.pos_id AS pos_id,                                  -- of that
  c.prompt AS changed_prompt,                          -- of the first difference from the baseline in forward order, beyond rounding where there is one
  c.phase AS changed_phase,                            -- of that
  c.pos_id AS changed_pos_id,                          -- of that
  c.layer AS changed_layer,                            -- of that
  c.tensor AS changed_tensor,                          -- of that
  c.divergent AS changed_rows,                         -- rows that differ from the baseline's beyond rounding
  c.nonfinite AS nonfinite_rows,                       -- rows that are not finite, in either
  c.rounding AS rounded_rows,                          -- rows that differ from the baseline's by rounding
  c.only_a AS lost_rows,                               -- rows that only the baseline has
  c.only_b AS new_rows,                                -- rows that only the run has
  v.divergent - g.divergent AS waived_divergent,       -- pairs of the run that are waived and beyond rounding: they fail the numeric verdict
  ifnull(e.pairs - c.pairs, 0) AS waived_rows,         -- rows that differ from the baseline's and are waived
  ifnull(e.divergent - c.divergent, 0) AS waived_changed_rows, -- of those, beyond rounding
  c.change AS unwaived_change,                         -- change, what is waived left out; BROKEN and CHANGED fail (numerically, unless rounding alone turned the strict verdict), INCOMPARABLE cannot pass
  CASE WHEN 'INCOMPLETE' IN (g.strict_verdict, g.numeric_verdict) THEN (
    SELECT CASE
      WHEN r.status IN ('running', 'failed') THEN 'it did not end (status ' || r.status || ')'
      WHEN g.unmet > 0 THEN CASE g.unmet WHEN 1 THEN '1 row that it declares or says it wrote is not there'
        ELSE printf('%d rows that it declares or says it wrote are not there', g.unmet) END || ifnull((
          SELECT ', first ' || t.name || CASE WHEN l.layer < 0 THEN '' ELSE ' of layer ' || l.layer END || ', prompt ' || q.name
            || CASE l.side WHEN 0 THEN ', prefill' ELSE ', decode' END
          FROM plan l
          JOIN tensor t ON t.id = l.tensor_id
          JOIN prompt q ON q.id = l.prompt_id
          WHERE l.run_id = r.id AND NOT EXISTS (
            SELECT 1 FROM trace_row y
            WHERE y.run_id = l.run_id AND y.prompt_id = l.prompt_id AND y.side = l.side
              AND y.layer = l.layer AND y.tensor_id = l.tensor_id AND y.pos_id >= 0 AND (y.flags & 8) = 0)
          ORDER BY q.id, l.layer < 0, l.layer, t.ord, l.side LIMIT 1), '')
      WHEN s.unended THEN 'an ingest of its files has not ended'
      ELSE s.rejected || ' lines or files of it were not taken: ' || s.rejected_why END
    FROM run_state s WHERE s.run_id = r.id) END AS incomplete_why, -- why a verdict of its own is INCOMPLETE
  CASE WHEN x.baseline_id IS NULL THEN CASE
      WHEN (SELECT m.injected FROM lineage_member m WHERE m.run_id = r.id) THEN 'a fault was injected, so it is compared with nothing'
      WHEN r.commit_sha IS NULL THEN 'no run of its lineage came before it'
      ELSE 'no run of its lineage is of a commit before its own' END END AS no_baseline_why, -- why it has no baseline
  (SELECT w.unjudged_texts FROM run_verdict w WHERE w.run_id = r.id) AS unjudged_texts, -- see run_verdict
  r.experiment AS experiment,                          -- literal directory: b3_66_v2
  r.mode AS mode,                                      -- as_designed, kv_aligned, batch_invariant; NULL unknown
  r.date AS date,                                      -- YYYY-MM-DD; NULL unknown
  r.commit_sha AS commit_sha,                          -- commit of the engine that ran
  x.own_baseline AS own_baseline,                      -- 1: compared with its own baseline, or with nothing
  x.baseline_id AS baseline_id,                        -- run.id
  r.id AS run_id                                       -- run.id
FROM (
  SELECT k.*, ifnull(g.gate, 'strict') AS gate,  -- two ladders: the run's own verdict, and what changed
    CASE
      WHEN g.strict_verdict = 'FAIL' OR c.change IN ('BROKEN', 'CHANGED', 'ROUNDING') THEN 'FAIL'
      WHEN g.strict_verdict IS NOT 'PASS' THEN ifnull(g.strict_verdict, 'UNJUDGED')
      WHEN k.baseline_id IS NULL OR c.change IN ('SAME', 'FIXED') THEN 'PASS'
      ELSE 'INCOMPARABLE'
    END AS strict_answer,
    CASE
      -- BROKEN may be the strict verdict alone: by rounding, where values are the same but for that
      WHEN g.numeric_verdict = 'FAIL' OR c.change = 'CHANGED' OR c.change = 'BROKEN' AND c.numeric_verdict = 'FAIL' THEN 'FAIL'
      WHEN g.numeric_verdict IS NOT 'PASS' THEN ifnull(g.numeric_verdict, 'UNJUDGED')
      WHEN k.baseline_id IS NULL OR c.change IN ('SAME', 'FIXED', 'ROUNDING')
        OR c.change = 'BROKEN' AND c.numeric_verdict = 'PASS' THEN 'PASS'
      ELSE 'INCOMPARABLE'
    END AS numeric_answer
  FROM (
    -- level: gate where something is waived, which is left out
    SELECT p.*, CASE WHEN EXISTS (
        SELECT 1 FROM verdict g WHERE g.run_id = p.run_id AND g.level = 'gate' AND g.until >= date('now')) THEN 'gate' ELSE 'run' END AS level
    FROM (
      SELECT l.run_id AS run_id, l.baseline_id AS baseline_id, 1 AS own_baseline FROM lineage l
      UNION ALL
      SELECT c.run_id, c.baseline_id, 0 FROM run_change c
      WHERE c.level = 'run' AND c.baseline_id IS NOT (SELECT l.baseline_id FROM lineage l WHERE l.run_id = c.run_id)) p) k
  LEFT JOIN verdict g ON g.run_id = k.run_id AND g.level = k.level AND g.item = ''
  LEFT JOIN change_since c ON c.run_id = k.run_id AND c.baseline_id = k.baseline_id AND c.level = k.level
) x
JOIN run r ON r.id = x.run_id
LEFT JOIN run a ON a.id = x.baseline_id
LEFT JOIN verdict v ON v.run_id = x.run_id AND v.level = 'run' AND v.item = ''
LEFT JOIN verdict g ON g.run_id = x.run_id AND g.level = x.level AND g.item = ''
LEFT JOIN change_since c ON c.run_id = x.run_id AND c.baseline_id = x.baseline_id AND c.level = x.level
LEFT JOIN change_since e ON e.run_id = x.run_id AND e.baseline_id = x.baseline_id AND e.level = 'run';
