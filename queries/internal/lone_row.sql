-- Rows of run_b that have no partner in run_a: see comparison. Of several of one place and phase one stands for
-- all. Name both.
CREATE VIEW lone_row AS
SELECT a.id AS run_a_id, b.id AS run_b_id, y.tensor_id AS tensor_id
FROM run a
CROSS JOIN run b
CROSS JOIN prompt q ON q.run_id = b.id
LEFT JOIN prompt o ON o.run_id = a.id AND o.name = q.name
CROSS JOIN trace_row y
WHERE y.run_id = b.id AND y.prompt_id = q.id
  AND NOT EXISTS (
    SELECT 1 FROM trace_row x
    WHERE x.run_id = a.id AND x.prompt_id = o.id AND x.side = y.side AND x.pos_id = y.pos_id AND x.layer = y.layer
      AND x.tensor_id = y.tensor_id AND x.phase_id = y.phase_id AND (x.pos_id >= 0 OR x.step = y.step))
  AND CASE WHEN y.crowded THEN NOT EXISTS (
    SELECT 1 FROM trace_row e
    WHERE e.run_id = y.run_id AND e.prompt_id = y.prompt_id AND e.side = y.side AND e.pos_id = y.pos_id
      AND e.layer = y.layer AND e.tensor_id = y.tensor_id AND e.nth < y.nth
      AND e.phase_id = y.phase_id AND (e.pos_id >= 0 OR e.step = y.step)) ELSE 1 END;
