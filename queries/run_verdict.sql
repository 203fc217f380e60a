-- One row per run: its verdict, fail-closed, and where it first fails. A directory level that only
-- carries attributes for the runs below it is not a run and is left out.
CREATE VIEW run_verdict AS
SELECT
  v.run AS run,                                        -- run.name
  r.experiment AS experiment,                          -- literal directory: b3_66_v2
  r.mode AS mode,                                      -- as_designed, kv_aligned, batch_invariant; NULL unknown
  r.commit_sha AS commit_sha,                          -- commit of the engine that ran
  r.date AS date,                                      -- YYYY-MM-DD; NULL unknown
  e.evidence AS evidence,                              -- trace, report, none
  v.verdict AS verdict,                                -- FAIL, INCOMPLETE, NO_EVIDENCE, INCOMPARABLE, PASS
  v.numeric_verdict AS numeric_verdict,                -- the same, ROUNDING read as MATCH and UNKNOWN as INCOMPARABLE
  CASE
    WHEN v.partial > 0 THEN 'sampled'
    WHEN NOT EXISTS (SELECT 1 FROM plan p WHERE p.run_id = v.run_id) THEN 'undeclared'
    WHEN v.unmet > 0 THEN 'unmet'
    WHEN v.prefill_only + v.decode_only > 0 OR EXISTS (
      SELECT 1 FROM traced_position d WHERE d.run_id = v.run_id AND d.side < 2 AND d.pos_id < 0) THEN 'partial'
    ELSE 'complete'
  END AS coverage,                                     -- complete, undeclared, sampled; unmet: declared rows missing; partial: some rows have no partner, or no known position
  v.pairs AS pairs,                                    -- with a row on both sides
  v.pass AS pass,                                      -- MATCH
  v.fail AS fail,                                      -- DRIFT, NONFINITE (also of a row without a partner), AMBIGUOUS, CONFLICT; what double arithmetic refutes
  v.missing AS missing,                                -- must have a partner and have none
  v.decode_only AS decode_only,                        -- decode rows where nothing demands a partner
  v.prefill_only AS prefill_only,                      -- prefill rows that decode has no partner for and needs none
  v.incomparable AS incomparable,                      -- pairs that nothing decides
  (SELECT name FROM prompt WHERE id = v.fail_prompt_id) AS prompt, -- of the first fail
  v.fail_layer AS layer,                               -- of the first fail
  (SELECT name FROM tensor_name WHERE id = v.fail_name_id) AS tensor, -- of the first fail, as the prefill row names it
  v.fail_cause AS first_fail,                          -- cause; TRACE_OFFSET if any prompt's is
  (SELECT root_cause FROM cause WHERE name = v.fail_cause) AS root_cause, -- what the cause means: ATTENTION_COMPUTATION_MISMATCH, ...
  v.divergent_cause AS numeric_first_fail,             -- cause of the first pair beyond rounding
  v.divergent_layer AS numeric_layer,                  -- of that pair
  (SELECT name FROM tensor_name WHERE id = v.divergent_name_id) AS numeric_tensor, -- as the prefill row names it
  (SELECT name FROM prompt WHERE id = v.divergent_prompt_id) AS numeric_prompt, -- of that pair
  CASE WHEN v.divergent_cause IS NOT NULL THEN
    (SELECT i.numeric_origin FROM place_origin i
     WHERE i.run_id = v.run_id AND i.prompt_id = v.divergent_prompt_id AND i.pos_id = v.divergent_pos_id
       AND i.layer = v.divergent_layer AND i.tensor_id = v.divergent_tensor_id
       AND i.token_id IS v.divergent_token_id LIMIT 1) END AS numeric_origin, -- ORIGIN, PROPAGATED, UNSAMPLED; rounding inputs count as clean
  nullif(v.divergent_pos_id, -1) AS numeric_pos_id,    -- of the first pair beyond rounding
  v.fail_token_id AS token_id,                         -- of the first fail
  nullif(v.fail_pos_id, -1) AS pos_id,                             -- of the first fail
  v.nonfinite AS nonfinite,                            -- NONFINITE, also of rows without a partner
  v.rounding AS rounding,                              -- DRIFT within tolerance, and pairs of equal sketches that nothing else compares
  v.divergent AS divergent,                            -- DRIFT beyond it
  v.unmeasured AS unmeasured,                          -- DRIFT with nothing to measure it by
  v.unmet AS unmet,                                    -- rows that are not there though the plan declares them or the run says it wrote them
  v.claimed AS claimed,                                -- pairs with a row that only a document states
  (SELECT j.rejected FROM run_rejection j WHERE j.run_id = v.run_id) AS rejected, -- lines and files that were not taken
  (SELECT j.why FROM run_rejection j WHERE j.run_id = v.run_id) AS rejected_why, -- the most frequent reason
  EXISTS (SELECT 1 FROM ingest_run i WHERE i.run_id = v.run_id) AS ingest_open, -- 1: an ingest of its files has not ended
  r.status AS status,                                  -- unknown, running, complete, failed
  v.run_id AS run_id                                   -- run.id
FROM verdict_part v
JOIN run r ON r.id = v.run_id
JOIN run_evidence e ON e.run_id = v.run_id
WHERE v.prompt_id = 0
  AND NOT EXISTS (SELECT 1 FROM directory_level d WHERE d.run_id = v.run_id);
