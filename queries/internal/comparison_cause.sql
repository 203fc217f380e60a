-- comparison_graded with the cause of what fails, and what else is known of its place.
CREATE VIEW comparison_cause AS
SELECT
  s.*,
  CASE s.status
    WHEN 'MISSING' THEN 'TRACE_OFFSET' WHEN 'AMBIGUOUS' THEN 'AMBIGUOUS_TRACE' WHEN 'CONFLICT' THEN 'EVIDENCE_CONFLICT'
    ELSE CASE WHEN s.fails THEN coalesce(s.report_cause, w.switch_cause,
      (SELECT n.cause FROM tensor_name n WHERE n.id = s.name_id)) END END AS cause,
  w.id AS switched_id,  -- not NULL: the cause is that of a switch
  -- 1: the other side traced this at another position
  EXISTS (
    SELECT 1 FROM trace_row e
    WHERE e.run_id = s.run_id AND e.prompt_id = s.key_prompt_id AND e.side = 1 - s.side AND e.pos_id >= 0
      AND e.pos_id <> s.key_pos_id AND e.layer = s.key_layer AND e.tensor_id = s.key_tensor_id) AS elsewhere,
  -- the last block that this side traced here: what feeds the tensors after the stack
  (SELECT e.layer FROM trace_row e
   WHERE e.run_id = s.run_id AND e.prompt_id = s.key_prompt_id AND e.side = s.side AND e.pos_id = s.key_pos_id
     AND (SELECT t.stage FROM tensor t WHERE t.id = e.tensor_id) = 'layer'
   ORDER BY e.layer DESC LIMIT 1) AS last_layer
FROM comparison_graded s
-- the trace point itself, when that which names another cause for it matched; of more than rounding,
-- when that was rounding at most
LEFT JOIN tensor w ON w.id = CASE WHEN s.fails THEN s.key_tensor_id END AND w.switch_on IS NOT NULL AND EXISTS (
    SELECT 1 FROM comparison_graded i
    WHERE i.run_id = s.run_id AND i.other_run_id = s.other_run_id AND i.key_prompt_id = s.key_prompt_id
      AND i.side = s.side AND i.key_pos_id = s.key_pos_id AND i.key_layer = s.key_layer
      AND i.key_tensor_id = w.switch_on AND i.grade <= (s.grade >= 3));
