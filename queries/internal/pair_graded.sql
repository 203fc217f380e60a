-- pair_status with the grade of a difference and its cause.
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
         (SELECT n.cause FROM tensor_name n WHERE n.id = s.name_id)) END AS cause
FROM pair_status s;
