-- Rows of a run that differ from those of another and that a waiver of the run leaves out, each once. Name both.
CREATE VIEW waived_row AS
SELECT w.run_id AS run_id, s.run_id AS baseline_id, s.class AS class
FROM run_waiver w
CROSS JOIN comparison_classed s
WHERE s.axis = 'runs' AND s.other_run_id = w.run_id AND s.key_tensor_id = w.tensor_id
  AND (w.layer IS NULL OR s.key_layer = w.layer) AND s.status = 'DRIFT'
  AND NOT EXISTS (
    SELECT 1 FROM run_waiver o
    WHERE o.run_id = w.run_id AND o.tensor_id = w.tensor_id AND o.waiver_id < w.waiver_id
      AND (o.layer IS NULL OR o.layer = s.key_layer));
