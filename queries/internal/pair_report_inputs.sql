-- pair_inputs of a report's pairs, over the rows of the same table. Filter on source_id and line.
CREATE VIEW pair_report_inputs AS
SELECT
  s.source_id AS source_id, s.line AS line,
  (
    WITH RECURSIVE up(layer, tensor_id) AS (
      SELECT CASE g.layer WHEN 'same' THEN s.layer WHEN 'previous' THEN s.layer - 1 END, g.from_id
      FROM edge g WHERE g.to_id = s.tensor_id AND g.layer <> 'last'
      UNION
      SELECT CASE g.layer WHEN 'same' THEN u.layer WHEN 'previous' THEN u.layer - 1 END, g.from_id
      FROM up u JOIN edge g ON g.to_id = u.tensor_id AND g.layer <> 'last'
      WHERE u.layer >= 0 AND NOT EXISTS (SELECT 1 FROM report_pair b JOIN tensor_name m ON m.id = b.name_id
         WHERE b.source_id = s.source_id AND b.run_id = s.run_id AND b.prompt_id = s.prompt_id
           AND b.layer = u.layer AND m.tensor_id = u.tensor_id AND b.status <> 'MISSING'))
    SELECT max(CASE i.status WHEN 'MATCH' THEN 1 ELSE 4 END * 1099511627776
               + (1048574 - i.layer) * 65536 + 65535 - m.tensor_id)
    FROM up u JOIN report_pair i ON i.source_id = s.source_id AND i.run_id = s.run_id
      AND i.prompt_id = s.prompt_id AND i.layer = u.layer AND i.status <> 'MISSING'
    JOIN tensor_name m ON m.id = i.name_id AND m.tensor_id = u.tensor_id) AS worst_input
FROM pair_report s;
