-- Documents that claim PASS where the rows say otherwise, or where nothing was compared.
-- :run () a run; all of them without
SELECT c.run, c.claimed, c.verdict, c.evidence, c.pairs, c.conflict, c.report_file, c.claim_line,
       c.claim_text
FROM report_conflict c
WHERE (c.run = :run OR :run IS NULL) AND c.claimed LIKE 'PASS%'
  AND c.conflict NOT LIKE 'agrees%'
ORDER BY c.run_id, c.report_file;
