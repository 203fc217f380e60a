-- ancestor_state of the pairs that a report's table lists. Filter on the source.
CREATE VIEW report_ancestor_state AS
SELECT
  p.source_id AS source_id, p.run_id AS run_id, p.prompt_id AS prompt_id, p.layer AS layer,
  n.tensor_id AS tensor_id,
  CASE p.status WHEN 'MATCH' THEN 1 ELSE 4 END AS state
FROM report_pair p
JOIN tensor_name n ON n.id = p.name_id
WHERE p.status <> 'MISSING';
