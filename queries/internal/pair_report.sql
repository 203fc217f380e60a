-- Pairs of a run that has no trace rows, as its best report table lists them.
CREATE VIEW pair_report AS
SELECT
  e.run_id AS run_id, e.run AS run, q.prompt_id AS prompt_id, q.token_id AS token_id,
  q.pos_id AS pos_id, q.layer AS layer, n.tensor_id AS tensor_id, q.name_id AS name_id,
  q.status AS status, q.source_id AS source_id, q.line AS line,
  CASE q.status WHEN 'MISSING' THEN 'TRACE_OFFSET'
                WHEN 'DRIFT' THEN coalesce(q.cause, n.cause) END AS cause,
  q.root_cause AS root_cause, q.details AS details,
  -- as in pair_graded, over the rows of the same table
  CASE WHEN q.status = 'DRIFT' THEN (
    WITH RECURSIVE up(layer, tensor_id) AS (
      SELECT CASE g.layer WHEN 'same' THEN q.layer WHEN 'previous' THEN q.layer - 1 END, g.from_id
      FROM edge g WHERE g.to_id = n.tensor_id AND g.layer <> 'last'
      UNION
      SELECT CASE g.layer WHEN 'same' THEN u.layer WHEN 'previous' THEN u.layer - 1 END, g.from_id
      FROM up u JOIN edge g ON g.to_id = u.tensor_id AND g.layer <> 'last'
      WHERE u.layer >= 0 AND NOT EXISTS (SELECT 1 FROM report_pair b JOIN tensor_name m ON m.id = b.name_id
         WHERE b.source_id = e.report_source_id AND b.run_id = e.run_id AND b.prompt_id = q.prompt_id
           AND b.layer = u.layer AND m.tensor_id = u.tensor_id AND b.status <> 'MISSING'))
    SELECT max(CASE i.status WHEN 'MATCH' THEN 1 ELSE 4 END * 1099511627776
               + (1048574 - i.layer) * 65536 + 65535 - m.tensor_id)
    FROM up u JOIN report_pair i ON i.source_id = e.report_source_id AND i.run_id = e.run_id
      AND i.prompt_id = q.prompt_id AND i.layer = u.layer AND i.status <> 'MISSING'
    JOIN tensor_name m ON m.id = i.name_id AND m.tensor_id = u.tensor_id)
  END AS worst_input
FROM run_evidence e
JOIN report_pair q ON q.source_id = e.report_source_id AND q.run_id = e.run_id
LEFT JOIN tensor_name n ON n.id = q.name_id;
