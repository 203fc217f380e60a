-- One row per run and run that it is compared with, its baseline (own_baseline = 1), and others where somebody
-- asked: may it be merged? Its own verdict, and what changed since its baseline (view change), differences that
-- are waived (view waived) left out of both. What is waived counts again once its last day is over.
CREATE VIEW gate AS
WITH
  -- runs of the experiment that differ from the run n in one field of the lineage alone (spelling: which one of the two does
  -- not state, so that it may be the same; seeds are chosen); SQLite resolves n where this is used
  beside(field, value, spelling) AS NOT MATERIALIZED (
    SELECT max(f.field), max(f.other), max(f.field <> 'seed' AND (f.other IS NULL OR f.own IS NULL))
    FROM (
      SELECT
        o.id AS id, k.column1 AS field,
        CASE k.column1 WHEN 'mode' THEN lower(n.mode) WHEN 'dtype' THEN n.dtype WHEN 'seed' THEN n.seed ELSE (
          SELECT lower(trim(t.value)) FROM attribute t WHERE t.run_id = n.id AND t.dim = k.column1 ORDER BY t.rank, t.value LIMIT 1) END AS own,
        CASE k.column1 WHEN 'mode' THEN lower(o.mode) WHEN 'dtype' THEN o.dtype WHEN 'seed' THEN o.seed ELSE (
          SELECT lower(trim(t.value)) FROM attribute t WHERE t.run_id = o.id AND t.dim = k.column1 ORDER BY t.rank, t.value LIMIT 1) END AS other
      FROM run o CROSS JOIN (VALUES ('mode'), ('dtype'), ('backend'), ('model'), ('suite'), ('kv_cache'), ('seed')) k
      WHERE o.experiment = n.experiment AND o.id <> n.id AND NOT (SELECT m.injected FROM lineage_member m WHERE m.run_id = o.id)
        AND EXISTS (SELECT 1 FROM prompt q JOIN prompt w ON w.run_id = o.id AND w.name = q.name WHERE q.run_id = n.id)) f
    WHERE f.own IS NOT f.other GROUP BY f.id HAVING count(*) = 1)
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
  CASE WHEN x.baseline_id IS NOT NULL AND c.change IS NULL THEN 'how they compare was not worked out' WHEN c.change = 'INCOMPARABLE' THEN coalesce(c.why_not, (SELECT 'it is not whole: ' || s.incomplete_why FROM run_state s WHERE s.run_id = x.baseline_id)) END AS why_not, -- why the two cannot be compared
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
  CASE WHEN 'INCOMPLETE' IN (g.strict_verdict, g.numeric_verdict) THEN (SELECT s.incomplete_why FROM run_state s WHERE s.run_id = r.id) END AS incomplete_why, -- why a verdict of its own is INCOMPLETE
  CASE WHEN x.baseline_id IS NULL THEN CASE
      WHEN (SELECT m.injected FROM lineage_member m WHERE m.run_id = r.id) THEN 'a fault was injected, so it is compared with nothing'
      WHEN r.commit_sha IS NULL THEN 'no run of its lineage came before it'
      ELSE 'no run of its lineage is of a commit before its own' END || ifnull('; it ' || x.beside, '') END AS no_baseline_why, -- why it has no baseline
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
      WHEN k.baseline_id IS NULL AND NOT k.may_have_one OR c.change IN ('SAME', 'FIXED') THEN 'PASS'
      ELSE 'INCOMPARABLE'
    END AS strict_answer,
    CASE  -- BROKEN may be the strict verdict alone: by rounding, where values are the same but for that
      WHEN g.numeric_verdict = 'FAIL' OR c.change = 'CHANGED' OR c.change = 'BROKEN' AND c.numeric_verdict = 'FAIL' THEN 'FAIL'
      WHEN g.numeric_verdict IS NOT 'PASS' THEN ifnull(g.numeric_verdict, 'UNJUDGED')
      WHEN k.baseline_id IS NULL AND NOT k.may_have_one OR c.change IN ('SAME', 'FIXED', 'ROUNDING')
        OR c.change = 'BROKEN' AND c.numeric_verdict = 'PASS' THEN 'PASS'
      ELSE 'INCOMPARABLE'
    END AS numeric_answer
  FROM (
    SELECT p.*,  -- level: gate where something is waived, which is left out
      CASE WHEN p.baseline_id IS NULL AND NOT p.injected THEN EXISTS (SELECT 1 FROM beside b WHERE b.spelling) ELSE 0 END AS may_have_one,
      CASE WHEN p.baseline_id IS NULL AND NOT p.injected THEN (
        SELECT printf('differs from %d run%s in %s: ', count(*), CASE count(*) WHEN 1 THEN '' ELSE 's' END, b.field) || ifnull(b.value, 'not stated')
        FROM beside b GROUP BY b.field, b.value ORDER BY max(b.spelling) DESC, count(*) DESC, b.field, b.value LIMIT 1) END AS beside,
      CASE WHEN EXISTS (SELECT 1 FROM verdict g WHERE g.run_id = p.run_id AND g.level = 'gate' AND g.until >= date('now')) THEN 'gate' ELSE 'run' END AS level
    FROM (
      SELECT l.run_id AS run_id, l.baseline_id AS baseline_id, 1 AS own_baseline, l.injected AS injected FROM lineage l
      UNION ALL
      SELECT c.run_id, c.baseline_id, 0, 0 FROM run_change c
      WHERE c.level = 'run' AND c.baseline_id IS NOT (SELECT l.baseline_id FROM lineage l WHERE l.run_id = c.run_id)) p JOIN run n ON n.id = p.run_id) k
  LEFT JOIN verdict g ON g.run_id = k.run_id AND g.level = k.level AND g.item = ''
  LEFT JOIN change_since c ON c.run_id = k.run_id AND c.baseline_id = k.baseline_id AND c.level = k.level
) x
JOIN run r ON r.id = x.run_id LEFT JOIN run a ON a.id = x.baseline_id
LEFT JOIN verdict v ON v.run_id = x.run_id AND v.level = 'run' AND v.item = ''
LEFT JOIN verdict g ON g.run_id = x.run_id AND g.level = x.level AND g.item = ''
LEFT JOIN change_since c ON c.run_id = x.run_id AND c.baseline_id = x.baseline_id AND c.level = x.level
LEFT JOIN change_since e ON e.run_id = x.run_id AND e.baseline_id = x.baseline_id AND e.level = 'run';
