-- One row per document that judges a run: what its table decides and which verdict it states, or else that it
-- claims a failure. Of several statements a PASS is shown first, because that is the one to doubt.
CREATE VIEW report_claimed AS
SELECT
  p.source_id AS source_id, p.run_id AS of_run_id,
  (SELECT value FROM report_claim WHERE id = p.claim_id) AS claimed,
  (SELECT line FROM report_claim WHERE id = p.claim_id) AS claim_line,
  (SELECT text FROM report_claim WHERE id = p.claim_id) AS claim_text,
  (SELECT count(*) FROM report_pair t WHERE t.source_id = p.source_id AND t.status <> 'MISSING') AS pairs,
  (SELECT count(*) FROM report_pair t WHERE t.source_id = p.source_id AND t.status = 'MATCH') AS pass,
  (SELECT count(*) FROM report_pair t WHERE t.source_id = p.source_id AND t.status = 'DRIFT') AS fail,
  (SELECT count(*) FROM report_pair t WHERE t.source_id = p.source_id AND t.status = 'MISSING') AS missing
FROM (
  SELECT
    s.source_id AS source_id, s.run_id AS run_id,
    (SELECT c.id FROM report_claim c
     WHERE c.run_id = s.run_id AND c.source_id = s.source_id AND c.kind IN ('verdict', 'failure')
     ORDER BY c.kind = 'failure', c.value LIKE 'PASS%' DESC, c.line, c.id LIMIT 1) AS claim_id
  FROM (SELECT source_id, run_id FROM report UNION SELECT source_id, run_id FROM report_claim) s
) p;
