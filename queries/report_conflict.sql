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
    r.name AS run, r.id AS run_id, v.strict_verdict AS verdict, ifnull(v.evidence, 'none') AS evidence,
    -- the verdict that the claim is about
    CASE k.value WHEN 'PASS_WITHIN_ROUNDING' THEN v.numeric_verdict ELSE v.strict_verdict END AS judged,
    s.source_id AS source_id, k.value AS claimed, k.line AS claim_line, k.text AS claim_text,
    (SELECT count(*) FROM report_pair t WHERE t.source_id = s.source_id AND t.status <> 'MISSING') AS pairs,
    (SELECT count(*) FROM report_pair t WHERE t.source_id = s.source_id AND t.status = 'MATCH') AS pass,
    (SELECT count(*) FROM report_pair t WHERE t.source_id = s.source_id AND t.status = 'DRIFT') AS fail,
    (SELECT count(*) FROM report_pair t WHERE t.source_id = s.source_id AND t.status = 'MISSING') AS missing,
    s.source_id IS v.report_source_id AS is_evidence
  FROM (SELECT source_id, run_id FROM report UNION SELECT source_id, run_id FROM report_claim) s
  JOIN run r ON r.id = s.run_id
  LEFT JOIN directory_level l ON l.run_id = r.id
  LEFT JOIN verdict v ON v.run_id = r.id AND v.level = 'run' AND l.run_id IS NULL
  -- of several statements a PASS, because that is the one to doubt; a failure in other words only where there is none
  LEFT JOIN report_claim k ON k.id = (
    SELECT c.id FROM report_claim c
    WHERE c.run_id = s.run_id AND c.source_id = s.source_id AND c.kind IN ('verdict', 'failure')
    ORDER BY c.kind = 'failure', c.value LIKE 'PASS%' DESC, c.line, c.id LIMIT 1)
  WHERE v.run_id IS NOT NULL OR l.run_id IS NOT NULL
) c
WHERE NOT c.is_evidence
   OR c.claimed IS NOT NULL AND c.claimed <> c.judged
      AND NOT (c.claimed LIKE 'PASS%' AND c.judged = 'PASS');
