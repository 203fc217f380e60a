-- comparison_graded without the differences that are waived for the run that is judged: of two runs the other
-- one. What is not finite, not there or contradicts itself is no such difference.
CREATE VIEW unwaived_comparison AS
SELECT s.*
FROM comparison_graded s
WHERE CASE WHEN s.status = 'DRIFT' THEN NOT EXISTS (
    SELECT 1 FROM run_waiver w
    WHERE w.run_id = s.other_run_id AND w.tensor_id = s.key_tensor_id
      AND (w.layer IS NULL OR w.layer = s.key_layer)) ELSE 1 END;
