-- Pairs of a run that has no trace rows, as its best report table lists them.
CREATE VIEW pair_report AS
SELECT
  e.run_id AS run_id, e.run AS run, q.prompt_id AS prompt_id, q.token_id AS token_id,
  q.pos_id AS pos_id, q.layer AS layer, n.tensor_id AS tensor_id, q.name_id AS name_id,
  q.status AS status, q.source_id AS source_id, q.line AS line,
  CASE q.status WHEN 'MISSING' THEN 'TRACE_OFFSET'
                WHEN 'DRIFT' THEN coalesce(q.cause, n.cause) END AS cause,
  q.root_cause AS root_cause, q.details AS details
FROM run_evidence e
JOIN report_pair q ON q.source_id = e.report_source_id AND q.run_id = e.run_id
LEFT JOIN tensor_name n ON n.id = q.name_id;
