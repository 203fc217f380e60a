-- One row per document that judges a run and is not the evidence of its verdict, or claims another
-- verdict. A claim is not evidence: this is where a PASS over zero pairs shows.
CREATE VIEW report_conflict AS
SELECT
  c.run AS run,                                        -- run.name
  (SELECT min(l.path) FROM source_location l WHERE l.source_id = c.source_id) AS report_file, -- the document
  c.claimed AS claimed,                                -- verdict it states: PASS, FAIL, INCONCLUSIVE, ...; PASS_WITHIN_ROUNDING is of the numeric verdict; NULL none
  c.verdict AS verdict,                                -- strict_verdict of run_verdict; NULL for a directory level, which is no run
  c.evidence AS evidence,                              -- what that rests on: trace, report, none
  c.pairs AS pairs,                                    -- pairs its table decides
  c.pass AS pass,                                      -- MATCH in its table
  c.fail AS fail,                                      -- DRIFT in its table
  c.missing AS missing,                                -- MISSING in its table
  CASE
    WHEN c.claimed = c.judged OR c.claimed LIKE 'PASS%' AND c.judged = 'PASS' THEN
      CASE c.judged WHEN c.verdict THEN 'agrees, but is not the evidence'
        ELSE 'agrees with the numeric verdict, but is not the evidence' END
    WHEN c.claimed LIKE 'PASS%' AND c.pairs = 0 THEN 'claims PASS without a decided pair'
    WHEN c.claimed LIKE 'PASS%' THEN 'claims PASS'
    WHEN c.claimed = 'INCONCLUSIVE' AND c.verdict IN ('PASS', 'FAIL') THEN 'undecided where the rows decide'
    WHEN c.claimed IS NOT NULL AND c.verdict IS NOT NULL THEN 'claims another verdict'
    WHEN c.verdict IS NULL THEN 'judges a directory level, not a run'
    WHEN c.fail > 0 AND c.verdict IN ('PASS', 'INCOMPARABLE') THEN 'its table fails'
    WHEN c.pairs = 0 AND c.missing > 0 THEN 'its table pairs nothing'
    WHEN c.pairs = 0 THEN 'its table is empty'
    WHEN c.evidence = 'trace' THEN 'the trace is the evidence'
    ELSE 'another table is the evidence'
  END AS conflict,                                     -- in words
  c.claim_line AS claim_line,                          -- of the document; NULL without a claim
  c.claim_text AS claim_text,                          -- as written there
  c.run_id AS run_id                                   -- run.id
FROM (
  SELECT
    r.name AS run, v.run_id AS run_id, v.strict_verdict AS verdict, v.evidence AS evidence,
    -- the verdict that the claim is about
    CASE d.claimed WHEN 'PASS_WITHIN_ROUNDING' THEN v.numeric_verdict ELSE v.strict_verdict END AS judged, d.*,
    d.source_id IS v.report_source_id AS is_evidence
  FROM verdict v
  JOIN run r ON r.id = v.run_id
  JOIN report_claimed d ON d.of_run_id = v.run_id
  WHERE v.level = 'run' AND NOT EXISTS (SELECT 1 FROM directory_level l WHERE l.run_id = v.run_id)
  UNION ALL
  SELECT r.name, r.id, NULL, 'none', NULL, d.*, 0
  FROM run r
  JOIN report_claimed d ON d.of_run_id = r.id
  JOIN directory_level l ON l.run_id = r.id
) c
WHERE NOT c.is_evidence
   OR c.claimed IS NOT NULL AND c.claimed <> c.judged
      AND NOT (c.claimed LIKE 'PASS%' AND c.judged = 'PASS');
