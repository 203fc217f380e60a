-- comparison_classed with the cause of a difference.
CREATE VIEW comparison_graded AS
SELECT
  s.*,
  b.id AS blamed_name_id,  -- name_id where there is a cause
  w.id AS switched_id,     -- key_tensor_id where the cause is that of a switch
  CASE
    WHEN s.status = 'MISSING' THEN 'TRACE_OFFSET'
    WHEN s.status = 'AMBIGUOUS' THEN 'AMBIGUOUS_TRACE'
    WHEN s.status = 'CONFLICT' THEN 'EVIDENCE_CONFLICT'
    WHEN s.fails THEN coalesce(s.report_cause, w.switch_cause, b.cause)
  END AS cause,
  -- 1: what is missing here was traced at another position
  CASE WHEN s.status = 'MISSING' THEN EXISTS (
    SELECT 1 FROM trace_row e
    WHERE e.run_id = s.run_id AND e.prompt_id = s.key_prompt_id AND e.side = 1 - s.side AND e.pos_id >= 0
      AND e.pos_id <> s.key_pos_id AND e.layer = s.key_layer AND e.tensor_id = s.key_tensor_id)
  ELSE 0 END AS elsewhere
FROM comparison_classed s
LEFT JOIN tensor_name b ON b.id = CASE WHEN s.blamed THEN s.name_id END
-- the trace point itself, when that which names another cause for it matched; of more than rounding,
-- when that was rounding at most
LEFT JOIN tensor w ON w.id = CASE WHEN s.switch_on IS NOT NULL THEN CASE WHEN s.fails THEN CASE WHEN EXISTS (
    SELECT 1 FROM comparison_classed i
    WHERE i.axis = s.axis AND i.run_id = s.run_id AND i.other_run_id = s.other_run_id
      AND i.key_prompt_id = s.key_prompt_id AND i.side = s.side AND i.key_pos_id = s.key_pos_id
      AND i.key_layer = s.key_layer AND i.key_tensor_id = s.switch_on AND i.grade <= (s.grade >= 3))
  THEN s.key_tensor_id END END END;
