-- One row per run (level 'run'), run and prompt ('prompt'), run and cause ('cause'), and of a run with waived
-- differences one without them ('gate'): what the rows of the run amount to, worked out from them. Judging keeps
-- these rows in the table `verdict`, which documents the columns and which all other views read. Name the run_id.
CREATE VIEW verdict_now AS
SELECT
  v.run AS run,                                        -- run.name
  v.experiment AS experiment,                          -- literal directory: b3_66_v2
  v.mode AS mode,                                      -- as_designed, kv_aligned, batch_invariant; NULL unknown
  v.commit_sha AS commit_sha,                          -- commit of the engine that ran
  v.date AS date,                                      -- YYYY-MM-DD; NULL unknown
  v.level AS level, v.item AS item, v.evidence AS evidence, v.report_source_id AS report_source_id,
  CASE WHEN v.strictly THEN v.strict_verdict ELSE v.numeric_verdict END AS verdict,
  CASE WHEN v.strictly THEN 'strict' ELSE 'numeric' END AS gate, v.strict_verdict AS strict_verdict,
  v.numeric_verdict AS numeric_verdict,
  CASE
    WHEN v.partial > 0 THEN 'sampled'
    WHEN NOT EXISTS (SELECT 1 FROM plan p WHERE p.run_id = v.run_id) THEN 'undeclared'
    WHEN v.unmet > 0 THEN 'unmet'
    WHEN v.prefill_only + v.decode_only > 0 OR EXISTS (
      SELECT 1 FROM traced_position d WHERE d.run_id = v.run_id AND d.side < 2 AND d.pos_id < 0) THEN 'partial'
    ELSE 'complete'
  END AS coverage,
  v.compared AS compared, v.pairs AS pairs, v.pass AS pass, v.fail AS fail, v.drift AS drift,
  v.nonfinite AS nonfinite, v.rounding AS rounding, v.divergent AS divergent, v.unmeasured AS unmeasured,
  v.missing AS missing, v.decode_only AS decode_only, v.prefill_only AS prefill_only, v.claimed AS claimed,
  v.incomparable AS incomparable, v.unmet AS unmet,
  v.first_cause AS first_fail,
  (SELECT c.root_cause FROM cause c WHERE c.name = v.first_cause) AS root_cause,
  (SELECT q.name FROM prompt q WHERE q.id = v.first_prompt_id) AS prompt,
  v.first_layer AS layer, (SELECT n.name FROM tensor_name n WHERE n.id = v.first_name_id) AS tensor,
  nullif(v.first_pos_id, -1) AS pos_id, v.first_token_id AS token_id,
  CASE
    WHEN v.first_cause IS NULL OR v.level = 'cause' THEN NULL
    WHEN v.missing > 0 THEN printf('%d rows have no partner%s', v.missing,
      CASE WHEN v.missing_elsewhere THEN ', though the other side traced such a tensor at another position' ELSE '' END)
    WHEN v.report_source_id IS NOT NULL THEN (
      SELECT p.details FROM report_pair p WHERE p.source_id = v.report_source_id AND p.line = v.strict_line)
    ELSE coalesce(
      (SELECT printf('REFUTED: %s at step %d is rel_l2=%.3g from double arithmetic',
         CASE o.side WHEN 0 THEN 'prefill' ELSE 'decode' END, o.step, o.error)
       FROM refuted_readout o
       WHERE o.run_id = v.run_id AND o.prompt_id = v.first_prompt_id AND o.cause = v.first_cause
         AND o.pos_id = v.first_pos_id LIMIT 1),
      (SELECT CASE WHEN g.alone THEN printf('%s: nan=%d inf=%d, in a row of %s that has no partner',
             g.status, g.x_nan, g.x_inf, (SELECT h.name FROM phase h WHERE h.id = g.phase_id))
           ELSE printf('%s%s%s: prefill %s, decode %s%s', g.status, ifnull(' ' || g.class, ''),
             CASE WHEN g.rel_l2 IS NULL THEN '' ELSE printf(' rel_l2=%.3g', g.rel_l2) END || CASE g.measure WHEN 'exact' THEN
               ' exact, ' || (SELECT d.location FROM located_difference d WHERE d.id = g.difference_id) ELSE '' END,
             CASE WHEN g.x_hash IS NULL THEN 'without hash' ELSE printf('%llu', g.x_hash) END,
             CASE WHEN g.y_hash IS NULL THEN 'without hash' ELSE printf('%llu', g.y_hash) END,
             CASE g.status WHEN 'NONFINITE' THEN printf(' (prefill nan=%d inf=%d, decode nan=%d inf=%d)',
               g.x_nan, g.x_inf, g.y_nan, g.y_inf) ELSE '' END) END
       FROM comparison_graded g
       WHERE g.run_id = v.run_id AND g.other_run_id = v.run_id AND g.key_prompt_id = v.first_prompt_id
         AND g.side IN (0, 1, 2) AND g.key_pos_id = v.first_pos_id AND g.key_layer = v.first_layer
         AND g.key_tensor_id = (SELECT n.tensor_id FROM tensor_name n WHERE n.id = v.first_name_id)
         AND g.token_id IS v.first_token_id AND g.fails LIMIT 1))
  END AS details,
  v.strict_cause AS strict_first_fail, (SELECT q.name FROM prompt q WHERE q.id = v.strict_prompt_id) AS strict_prompt,
  v.strict_layer AS strict_layer, (SELECT n.name FROM tensor_name n WHERE n.id = v.strict_name_id) AS strict_tensor,
  nullif(v.strict_pos_id, -1) AS strict_pos_id, v.strict_token_id AS strict_token_id,
  v.drift_cause AS first_drift_cause, v.drift_layer AS first_drift_layer,
  (SELECT n.name FROM tensor_name n WHERE n.id = v.drift_name_id) AS first_drift_tensor,
  v.numeric_cause AS numeric_first_fail, (SELECT q.name FROM prompt q WHERE q.id = v.numeric_prompt_id) AS numeric_prompt,
  v.numeric_layer AS numeric_layer, (SELECT n.name FROM tensor_name n WHERE n.id = v.numeric_name_id) AS numeric_tensor,
  nullif(v.numeric_pos_id, -1) AS numeric_pos_id, v.numeric_token_id AS numeric_token_id,
  CASE WHEN v.numeric_cause IS NOT NULL AND v.level <> 'cause' THEN (
    SELECT s.numeric_origin
    FROM comparison_origin s
    WHERE s.run_id = v.run_id AND s.other_run_id = v.run_id AND s.key_prompt_id = v.numeric_prompt_id
      AND s.side IN (0, 1, 2) AND s.key_pos_id = v.numeric_pos_id AND s.key_layer = v.numeric_layer
      AND s.key_tensor_id = (SELECT n.tensor_id FROM tensor_name n WHERE n.id = v.numeric_name_id)
      AND s.token_id IS v.numeric_token_id AND s.fails LIMIT 1) END AS numeric_origin,
  v.rejected AS rejected, v.rejected_why AS rejected_why,
  CASE v.level WHEN 'gate' THEN (SELECT min(w.until) FROM run_waiver w WHERE w.run_id = v.run_id) END AS until,
  v.run_id AS run_id                                   -- run.id
FROM (
  SELECT
    c.*, r.name AS run, r.experiment AS experiment, r.mode AS mode, r.commit_sha AS commit_sha, r.date AS date,
    s.rejected AS rejected, s.rejected_why AS rejected_why, s.evidence AS evidence,
    s.report_source_id AS report_source_id,
    -- the ladder, fail-closed: the first line that applies
    CASE
      WHEN c.fail > 0 OR c.missing_elsewhere > 0 THEN 'FAIL'
      WHEN s.unended OR c.unmet > 0 THEN 'INCOMPLETE'
      WHEN c.missing > 0 THEN 'FAIL'
      WHEN c.pairs = c.claimed THEN 'NO_EVIDENCE'
      WHEN s.rejected > 0 THEN 'INCOMPLETE'
      WHEN c.claimed > 0 THEN 'INCOMPARABLE'
      WHEN c.pass = c.pairs AND NOT s.told_failing THEN 'PASS'
      ELSE 'INCOMPARABLE'
    END AS strict_verdict,
    -- the same, ROUNDING read as MATCH and UNKNOWN as INCOMPARABLE
    CASE
      WHEN c.fail - c.drift + c.divergent > 0 OR c.missing_elsewhere > 0 THEN 'FAIL'
      WHEN s.unended OR c.unmet > 0 THEN 'INCOMPLETE'
      WHEN c.missing > 0 THEN 'FAIL'
      WHEN c.pairs = c.claimed THEN 'NO_EVIDENCE'
      WHEN s.rejected > 0 THEN 'INCOMPLETE'
      WHEN c.claimed > 0 THEN 'INCOMPARABLE'
      WHEN c.pass + c.rounding = c.pairs AND NOT (s.told_failing AND c.drift = 0) THEN 'PASS'
      ELSE 'INCOMPARABLE'
    END AS numeric_verdict
  FROM verdict_count c
  JOIN run r ON r.id = c.run_id
  JOIN run_state s ON s.run_id = c.run_id
) v;
