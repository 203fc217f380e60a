-- pair_status with the grade of a difference, its cause, and the state of its nearest traced
-- ancestors in the data flow: input_state NULL none traced, 1 all match, 2 some differ by rounding
-- only, 3 some cannot be compared, 4 some differ by more. The walk goes up through trace points that
-- have no pair and stops at the first that have. worst_input packs the worst of them, the earliest of
-- these:
-- input_state * 2^40 + (2^20 - 2 - layer) * 2^16 + 2^16 - 1 - tensor_id.
CREATE VIEW pair_graded AS
SELECT
  s.*,
  CASE WHEN s.status <> 'DRIFT' THEN NULL
       WHEN s.rel_l2 IS NULL THEN 'UNKNOWN'
       WHEN s.rel_l2 <= s.tolerance THEN 'ROUNDING'
       ELSE 'DIVERGENT' END AS class,
  -- 0 MATCH, 1 ROUNDING, 2 UNKNOWN, 3 DIVERGENT, 4 NONFINITE or AMBIGUOUS, NULL INCOMPARABLE
  CASE s.status WHEN 'MATCH' THEN 0 WHEN 'INCOMPARABLE' THEN NULL
    WHEN 'DRIFT' THEN CASE WHEN s.rel_l2 IS NULL THEN 2 WHEN s.rel_l2 <= s.tolerance THEN 1 ELSE 3 END
    ELSE 4 END AS grade,
  CASE WHEN s.status = 'AMBIGUOUS' THEN 'AMBIGUOUS_TRACE'
       WHEN s.status IN ('DRIFT', 'NONFINITE') THEN coalesce(
         (SELECT t.switch_cause FROM tensor t
          WHERE t.id = s.tensor_id AND t.switch_on IS NOT NULL AND EXISTS (
            SELECT 1 FROM pair_status i
            WHERE i.run_id = s.run_id AND i.prompt_id = s.prompt_id AND i.pos_id = s.pos_id
              AND i.layer = s.layer AND i.tensor_id = t.switch_on AND i.status = 'MATCH')),
         (SELECT n.cause FROM tensor_name n WHERE n.id = s.name_id)) END AS cause,
  CASE WHEN s.status IN ('DRIFT', 'NONFINITE', 'AMBIGUOUS') THEN (
    WITH RECURSIVE up(layer, tensor_id) AS (
      SELECT CASE e.layer WHEN 'same' THEN s.layer WHEN 'previous' THEN s.layer - 1 ELSE s.last_layer END, e.from_id
      FROM edge e WHERE e.to_id = s.tensor_id
      UNION
      SELECT CASE e.layer WHEN 'same' THEN u.layer WHEN 'previous' THEN u.layer - 1 ELSE s.last_layer END, e.from_id
      FROM up u JOIN edge e ON e.to_id = u.tensor_id
      WHERE u.layer >= -1 AND NOT EXISTS (SELECT 1 FROM traced_both b
         WHERE b.run_id = s.run_id AND b.prompt_id = s.prompt_id AND b.pos_id = s.pos_id
           AND b.layer = u.layer AND b.tensor_id = u.tensor_id))
    SELECT max(CASE
        WHEN i.status = 'MATCH' THEN 1
        WHEN i.status = 'INCOMPARABLE' THEN 3
        WHEN i.status = 'DRIFT' AND i.rel_l2 <= i.tolerance THEN 2
        ELSE 4 END * 1099511627776 + (1048574 - i.layer) * 65536 + 65535 - i.tensor_id)
    FROM up u JOIN pair_status i
      ON i.run_id = s.run_id AND i.prompt_id = s.prompt_id AND i.pos_id = s.pos_id
     AND i.layer = u.layer AND i.tensor_id = u.tensor_id)
  END AS worst_input,
  EXISTS (
    SELECT 1 FROM edge e WHERE e.to_id = s.tensor_id AND e.kind = 'copy'
       AND EXISTS (SELECT 1 FROM traced_both b
         WHERE b.run_id = s.run_id AND b.prompt_id = s.prompt_id AND b.pos_id = s.pos_id
           AND b.layer = CASE e.layer WHEN 'same' THEN s.layer WHEN 'previous' THEN s.layer - 1 ELSE s.last_layer END AND b.tensor_id = e.from_id))
  OR (
    EXISTS (
      SELECT 1 FROM edge e WHERE e.to_id = s.tensor_id
       AND EXISTS (SELECT 1 FROM traced_both b
         WHERE b.run_id = s.run_id AND b.prompt_id = s.prompt_id AND b.pos_id = s.pos_id
           AND b.layer = CASE e.layer WHEN 'same' THEN s.layer WHEN 'previous' THEN s.layer - 1 ELSE s.last_layer END AND b.tensor_id = e.from_id))
    AND NOT EXISTS (
      SELECT 1 FROM edge e WHERE e.to_id = s.tensor_id AND e.kind = 'input'
       AND NOT EXISTS (SELECT 1 FROM traced_both b
         WHERE b.run_id = s.run_id AND b.prompt_id = s.prompt_id AND b.pos_id = s.pos_id
           AND b.layer = CASE e.layer WHEN 'same' THEN s.layer WHEN 'previous' THEN s.layer - 1 ELSE s.last_layer END AND b.tensor_id = e.from_id))
  ) AS inputs_complete
FROM pair_status s;
