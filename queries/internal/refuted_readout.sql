-- Readouts whose final norm or logits are further from double arithmetic on the same hidden state than
-- rounding explains: one side or both may compute wrongly, and alike.
CREATE VIEW refuted_readout AS
SELECT
  o.run_id AS run_id, o.prompt_id AS prompt_id, o.side AS side, o.pos_id AS pos_id, o.step AS step,
  n.id AS name_id, n.tensor_id AS tensor_id, c.cause AS cause,
  CASE c.cause WHEN 'FINAL_NORM_REFUTED' THEN o.norm_error ELSE o.logits_error END AS error
FROM readout o
CROSS JOIN (SELECT 'FINAL_NORM_REFUTED' AS cause, 'final_norm' AS tensor
            UNION ALL SELECT 'LOGITS_REFUTED', 'logits') c
JOIN tensor_name n ON n.name = c.tensor
WHERE CASE c.cause WHEN 'FINAL_NORM_REFUTED' THEN o.norm_error ELSE o.logits_error END
    > (SELECT t.rel_l2 FROM run_tolerance t WHERE t.run_id = o.run_id AND t.tensor_id = n.tensor_id);
