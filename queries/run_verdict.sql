-- One row per run: its verdict, fail-closed, and where it first fails. A directory level that only
-- carries attributes for the runs below it is not a run and is left out.
CREATE VIEW run_verdict AS
SELECT
  v.run AS run,                                        -- run.name
  r.experiment AS experiment,                          -- literal directory: b3_66_v2
  r.mode AS mode,                                      -- as_designed, kv_aligned, batch_invariant; NULL unknown
  r.commit_sha AS commit_sha,                          -- commit of the engine that ran
  r.date AS date,                                      -- YYYY-MM-DD; NULL unknown
  v.evidence AS evidence,                              -- trace, report, none
  CASE
    WHEN v.fail > 0 OR v.missing_elsewhere > 0 THEN 'FAIL'
    WHEN r.status IN ('running', 'failed') OR v.unmet > 0 THEN 'INCOMPLETE'
    WHEN v.missing > 0 THEN 'FAIL'
    WHEN v.pairs = 0 THEN 'NO_EVIDENCE'
    WHEN v.incomparable > 0 THEN 'INCOMPARABLE'
    WHEN v.pass = v.pairs THEN 'PASS'
    ELSE 'INCOMPARABLE'
  END AS verdict,                                      -- FAIL, INCOMPLETE, NO_EVIDENCE, INCOMPARABLE, PASS
  CASE
    WHEN v.fail - v.drift + v.divergent > 0 OR v.missing_elsewhere > 0 THEN 'FAIL'
    WHEN r.status IN ('running', 'failed') OR v.unmet > 0 THEN 'INCOMPLETE'
    WHEN v.missing > 0 THEN 'FAIL'
    WHEN v.pairs = 0 THEN 'NO_EVIDENCE'
    WHEN v.incomparable + v.unmeasured > 0 THEN 'INCOMPARABLE'
    WHEN v.pass + v.rounding = v.pairs THEN 'PASS'
    ELSE 'INCOMPARABLE'
  END AS numeric_verdict,                              -- the same, ROUNDING read as MATCH and UNKNOWN as INCOMPARABLE
  CASE
    WHEN v.partial > 0 THEN 'sampled'
    WHEN NOT EXISTS (SELECT 1 FROM plan p WHERE p.run_id = v.run_id) THEN 'undeclared'
    WHEN v.unmet > 0 THEN 'unmet'
    ELSE 'complete'
  END AS coverage,                                     -- complete, undeclared, sampled; unmet: declared rows missing
  v.pairs AS pairs,                                    -- with a row on both sides
  v.pass AS pass,                                      -- MATCH
  v.fail AS fail,                                      -- DRIFT, NONFINITE, AMBIGUOUS
  v.missing AS missing,                                -- must have a partner and have none
  v.decode_only AS decode_only,                        -- decode rows where nothing demands a partner
  v.incomparable AS incomparable,                      -- pairs that nothing decides
  (SELECT name FROM prompt WHERE id = v.fail_prompt_id) AS prompt, -- of the first fail
  v.fail_layer AS layer,                               -- of the first fail
  CASE WHEN v.fail_at IS NOT NULL THEN coalesce(
    (SELECT n.name FROM trace_row t JOIN tensor_name n ON n.id = t.name_id
     WHERE t.run_id = v.run_id AND t.prompt_id = v.fail_prompt_id AND t.side IN (0, 1)
       AND t.pos_id = v.fail_at AND t.layer = v.fail_layer AND t.tensor_id = v.fail_tensor_id
     ORDER BY t.side LIMIT 1),
    (SELECT n.name FROM report_pair t JOIN tensor_name n ON n.id = t.name_id
     WHERE t.source_id = v.report_source_id AND t.line = v.fail_at),
    (SELECT name FROM tensor WHERE id = v.fail_tensor_id)) END AS tensor, -- of the first fail, as the prefill row names it
  v.fail_cause AS first_fail,                          -- cause; TRACE_OFFSET if any prompt's is
  (SELECT root_cause FROM cause WHERE name = v.fail_cause) AS root_cause, -- what the cause means: ATTENTION_COMPUTATION_MISMATCH, ...
  v.divergent_cause AS numeric_first_fail,             -- cause of the first pair beyond rounding
  v.divergent_layer AS numeric_layer,                  -- of that pair
  CASE WHEN v.divergent_at IS NOT NULL THEN coalesce(
    (SELECT n.name FROM trace_row t JOIN tensor_name n ON n.id = t.name_id
     WHERE t.run_id = v.run_id AND t.prompt_id = v.divergent_prompt_id AND t.side IN (0, 1)
       AND t.pos_id = v.divergent_at AND t.layer = v.divergent_layer AND t.tensor_id = v.divergent_tensor_id
     ORDER BY t.side LIMIT 1),
    (SELECT n.name FROM report_pair t JOIN tensor_name n ON n.id = t.name_id
     WHERE t.source_id = v.report_source_id AND t.line = v.divergent_at),
    (SELECT name FROM tensor WHERE id = v.divergent_tensor_id)) END AS numeric_tensor, -- as the prefill row names it
  (SELECT name FROM prompt WHERE id = v.divergent_prompt_id) AS numeric_prompt, -- of that pair
  CASE WHEN v.divergent_at IS NULL THEN NULL ELSE
    CASE (SELECT i.worst_input >> 40 FROM pair_inputs i
          WHERE i.run_id = v.run_id AND i.prompt_id = v.divergent_prompt_id
            AND i.pos_id = v.divergent_at AND i.layer = v.divergent_layer
            AND i.tensor_id = v.divergent_tensor_id LIMIT 1)
    WHEN 1 THEN 'ORIGIN' WHEN 2 THEN 'ORIGIN' WHEN 4 THEN 'PROPAGATED' ELSE 'UNSAMPLED' END END AS numeric_origin, -- ORIGIN, PROPAGATED, UNSAMPLED; rounding inputs count as clean
  CASE v.evidence WHEN 'trace' THEN
    (SELECT t.token_id FROM trace_row t
     WHERE t.run_id = v.run_id AND t.prompt_id = v.fail_prompt_id AND t.side IN (0, 1)
       AND t.pos_id = v.fail_at AND t.layer = v.fail_layer AND t.tensor_id = v.fail_tensor_id
     ORDER BY t.side LIMIT 1)
    ELSE (SELECT t.token_id FROM report_pair t
     WHERE t.source_id = v.report_source_id AND t.line = v.fail_at) END AS token_id, -- of the first fail
  CASE v.evidence WHEN 'trace' THEN
    (SELECT t.pos_id FROM trace_row t
     WHERE t.run_id = v.run_id AND t.prompt_id = v.fail_prompt_id AND t.side IN (0, 1)
       AND t.pos_id = v.fail_at AND t.layer = v.fail_layer AND t.tensor_id = v.fail_tensor_id
     ORDER BY t.side LIMIT 1)
    ELSE (SELECT t.pos_id FROM report_pair t
     WHERE t.source_id = v.report_source_id AND t.line = v.fail_at) END AS pos_id, -- of the first fail
  v.rounding AS rounding,                              -- DRIFT within tolerance
  v.divergent AS divergent,                            -- DRIFT beyond it
  v.unmeasured AS unmeasured,                          -- DRIFT with nothing to measure it by
  v.unmet AS unmet,                                    -- rows that are not there though the plan declares them or the run says it wrote them
  r.status AS status,                                  -- unknown, running, complete, failed
  v.run_id AS run_id                                   -- run.id
FROM verdict_first v
JOIN run r ON r.id = v.run_id
WHERE v.prompt_id = 0
  AND NOT (v.evidence = 'none' AND r.status = 'unknown'
    AND NOT EXISTS (SELECT 1 FROM plan p WHERE p.run_id = v.run_id)
    AND EXISTS (SELECT 1 FROM run c WHERE c.name > v.run || '/' AND c.name < v.run || '0'));
