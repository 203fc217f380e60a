-- One row per document that judges a run and is not the evidence of its verdict, or claims another
-- verdict. A claim is not evidence: this is where a PASS over zero pairs shows.
CREATE VIEW report_conflict AS
SELECT
  v.run AS run,                                        -- run.name
  (SELECT min(l.path) FROM source_location l WHERE l.source_id = d.source_id) AS report_file,
  d.claimed AS claimed,                                -- verdict it states: PASS, FAIL, INCONCLUSIVE, ...; NULL none
  v.verdict AS verdict,                                -- of run_verdict
  v.evidence AS evidence,                              -- what that rests on: trace, report, none
  d.pairs AS pairs,                                    -- pairs its table decides
  d.pass AS pass,
  d.fail AS fail,
  d.missing AS missing,
  CASE
    WHEN d.claimed_pass AND d.pairs = 0 THEN 'claims PASS without a decided pair'
    WHEN d.claimed_pass AND v.verdict <> 'PASS' THEN 'claims PASS'
    WHEN d.claimed = 'INCONCLUSIVE' AND v.verdict IN ('PASS', 'FAIL') THEN 'undecided where the rows decide'
    WHEN d.claimed IS NOT NULL AND d.claimed <> v.verdict THEN 'claims another verdict'
    WHEN d.fail > 0 AND v.verdict = 'PASS' THEN 'its table fails'
    WHEN d.pairs = 0 AND d.missing > 0 THEN 'its table pairs nothing'
    WHEN d.pairs = 0 THEN 'its table is empty'
    ELSE 'another table is the evidence'
  END AS conflict,
  d.claim_line AS claim_line,
  d.claim_text AS claim_text,
  v.run_id AS run_id
FROM run_verdict v
JOIN (
  SELECT
    p.source_id AS source_id, p.run_id AS run_id,
    (SELECT c.value FROM report_claim c WHERE c.source_id = p.source_id AND c.run_id = p.run_id
       AND c.kind = 'verdict' ORDER BY c.line LIMIT 1) AS claimed,
    (SELECT c.value LIKE 'PASS%' FROM report_claim c WHERE c.source_id = p.source_id
       AND c.run_id = p.run_id AND c.kind = 'verdict' ORDER BY c.line LIMIT 1) AS claimed_pass,
    (SELECT c.line FROM report_claim c WHERE c.source_id = p.source_id AND c.run_id = p.run_id
       AND c.kind = 'verdict' ORDER BY c.line LIMIT 1) AS claim_line,
    (SELECT c.text FROM report_claim c WHERE c.source_id = p.source_id AND c.run_id = p.run_id
       AND c.kind = 'verdict' ORDER BY c.line LIMIT 1) AS claim_text,
    (SELECT count(*) FROM report_pair t WHERE t.source_id = p.source_id AND t.status <> 'MISSING') AS pairs,
    (SELECT count(*) FROM report_pair t WHERE t.source_id = p.source_id AND t.status = 'MATCH') AS pass,
    (SELECT count(*) FROM report_pair t WHERE t.source_id = p.source_id AND t.status = 'DRIFT') AS fail,
    (SELECT count(*) FROM report_pair t WHERE t.source_id = p.source_id AND t.status = 'MISSING') AS missing
  FROM (SELECT source_id, run_id FROM report
        UNION SELECT source_id, run_id FROM report_claim WHERE kind = 'verdict') p
) d ON d.run_id = v.run_id
LEFT JOIN run_evidence e ON e.run_id = v.run_id
WHERE d.source_id IS NOT e.report_source_id OR d.claimed <> v.verdict;
