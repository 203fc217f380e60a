-- One row per run: its verdict, fail-closed, and where it first fails. UNJUDGED: nobody has judged it since its
-- rows changed; every command of greta does, and verdict_now says it to those who have sqlite3 alone. A
-- directory level that only carries attributes for the runs below it is no run and is left out.
CREATE VIEW run_verdict AS
SELECT
  r.name AS run,                                       -- run.name
  r.experiment AS experiment,                          -- literal directory: b3_66_v2
  r.mode AS mode,                                      -- as_designed, kv_aligned, batch_invariant; NULL unknown
  r.commit_sha AS commit_sha,                          -- commit of the engine that ran
  r.date AS date,                                      -- YYYY-MM-DD; NULL unknown
  v.evidence AS evidence,                              -- trace, report, none
  ifnull(v.verdict, 'UNJUDGED') AS verdict,            -- the one to act on: strict_verdict where the mode promises equal bits, or where no difference is measured; else numeric_verdict
  v.gate AS gate,                                      -- strict, numeric: which of the next two that is
  ifnull(v.strict_verdict, 'UNJUDGED') AS strict_verdict, -- FAIL, INCOMPLETE, NO_EVIDENCE, INCOMPARABLE, PASS: every pair is bitwise equal
  ifnull(v.numeric_verdict, 'UNJUDGED') AS numeric_verdict, -- the same, ROUNDING read as MATCH and UNKNOWN as INCOMPARABLE
  v.coverage AS coverage,                              -- complete, undeclared, sampled; unmet: declared rows missing; partial: some rows have no partner, or no known position
  v.pairs AS pairs,                                    -- with a row on both sides
  v.pass AS pass,                                      -- MATCH
  v.fail AS fail,                                      -- DRIFT, NONFINITE (also of a row without a partner), AMBIGUOUS, CONFLICT; what double arithmetic refutes
  v.missing AS missing,                                -- must have a partner and have none
  v.decode_only AS decode_only,                        -- decode rows where nothing demands a partner
  v.prefill_only AS prefill_only,                      -- prefill rows that decode has no partner for and needs none
  v.incomparable AS incomparable,                      -- pairs that nothing decides
  v.prompt AS prompt,                                  -- of the first fail
  v.layer AS layer,                                    -- of the first fail
  v.tensor AS tensor,                                  -- of the first fail, as the prefill row names it
  v.first_fail AS first_fail,                          -- cause of the first that fails by verdict; TRACE_OFFSET if any row is missing
  v.root_cause AS root_cause,                          -- what the cause means: ATTENTION_COMPUTATION_MISMATCH, ...
  v.pos_id AS pos_id,                                  -- of the first fail
  v.token_id AS token_id,                              -- of the first fail
  v.details AS details,                                -- of the first fail, in words
  v.strict_first_fail AS strict_first_fail,            -- cause of the first that fails by strict_verdict
  v.strict_prompt AS strict_prompt,                    -- of that
  v.strict_layer AS strict_layer,                      -- of that
  v.strict_tensor AS strict_tensor,                    -- of that
  v.strict_pos_id AS strict_pos_id,                    -- of that
  v.strict_token_id AS strict_token_id,                -- of that
  v.numeric_first_fail AS numeric_first_fail,          -- cause of the first pair beyond rounding
  v.numeric_prompt AS numeric_prompt,                  -- of that pair
  v.numeric_layer AS numeric_layer,                    -- of that pair
  v.numeric_tensor AS numeric_tensor,                  -- of that pair
  v.numeric_pos_id AS numeric_pos_id,                  -- of that pair
  v.numeric_origin AS numeric_origin,                  -- ORIGIN, PROPAGATED, UNSAMPLED; rounding inputs count as clean
  v.nonfinite AS nonfinite,                            -- NONFINITE, also of rows without a partner
  v.rounding AS rounding,                              -- DRIFT within tolerance, and pairs of equal sketches that nothing else compares
  v.divergent AS divergent,                            -- DRIFT beyond it
  v.unmeasured AS unmeasured,                          -- DRIFT with nothing to measure it by
  v.unmet AS unmet,                                    -- rows that are not there though the plan declares them or the run says it wrote them
  v.claimed AS claimed,                                -- pairs with a row that only a document states
  v.rejected AS rejected,                              -- lines and files that were not taken
  v.rejected_why AS rejected_why,                      -- the most frequent reason
  EXISTS (SELECT 1 FROM ingest_run i WHERE i.run_id = r.id) AS ingest_open, -- 1: an ingest of its files has not ended
  r.status AS status,                                  -- unknown, running, complete, failed
  CASE WHEN EXISTS (SELECT 1 FROM source s WHERE s.run_id = r.id AND s.shape IN ('document', 'log', 'table'))
      OR EXISTS (SELECT 1 FROM ingest_error e WHERE e.severity = 'warning' AND e.about = r.name) THEN (
    SELECT t.n || CASE t.n WHEN 1 THEN ' text beside it was' ELSE ' texts beside it were' END || ' not judged: '
      || t.names || CASE WHEN t.n > 3 THEN printf(' and %d more', t.n - 3) ELSE '' END
    FROM (
      SELECT max(f.n) AS n, group_concat(f.name, ', ') AS names
      FROM (
        SELECT replace(x.path, rtrim(x.path, replace(x.path, '/', '')), '') AS name, count(*) OVER () AS n
        FROM (
          SELECT (SELECT min(l.path) FROM source_location l WHERE l.source_id = s.id) AS path
          FROM source s
          WHERE s.run_id = r.id AND s.shape IN ('document', 'log', 'table') AND NOT EXISTS (
            SELECT 1 FROM report_claim k WHERE k.source_id = s.id AND k.run_id = r.id AND k.kind IN ('verdict', 'failure'))
          UNION ALL
          SELECT e.file FROM ingest_error e
          WHERE e.severity = 'warning' AND e.about = r.name AND e.reason = 'a text, stored and not judged') x
        ORDER BY name LIMIT 3) f) t
    WHERE t.n > 0) END AS unjudged_texts,              -- texts among its files that state no verdict and list no pairs, in words; NULL none
  r.id AS run_id                                       -- run.id
FROM run r
LEFT JOIN verdict v ON v.run_id = r.id AND v.level = 'run' AND v.item = ''
WHERE NOT EXISTS (SELECT 1 FROM directory_level d WHERE d.run_id = r.id);
