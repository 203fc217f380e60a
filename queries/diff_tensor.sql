-- One row per trace point of two runs that can be compared: how many rows of it are alike, over all
-- prompts, phases, positions and layers. Name both: WHERE run_a = '...' AND run_b = '...'.
CREATE VIEW diff_tensor AS
SELECT
  p.run_a AS run_a,                                    -- run.name
  p.run_b AS run_b,                                    -- run.name
  t.name AS tensor,                                    -- canonical
  sum(s.status = 'MATCH') AS match,                    -- bitwise equal
  sum(s.status = 'DRIFT' AND s.class = 'ROUNDING') AS rounding, -- DRIFT within tolerance
  ifnull(sum(s.class = 'DIVERGENT'), 0) AS divergent,  -- DRIFT beyond it
  sum(ifnull(s.class = 'UNKNOWN', 0) OR s.status IN ('AMBIGUOUS', 'CONFLICT')) AS unknown, -- DRIFT with nothing to measure it by; AMBIGUOUS, CONFLICT
  sum(s.status = 'NONFINITE') AS nonfinite,            -- NaN or inf on either side
  sum(s.status = 'INCOMPARABLE') AS incomparable,      -- nothing decides, or another token
  sum(s.status = 'ALONE' AND NOT d.back) AS only_a,    -- rows that run_b does not have
  sum(s.status = 'ALONE' AND d.back) AS only_b,        -- rows that run_a does not have
  t.ord AS ord,                                        -- forward order
  p.run_a_id AS run_a_id,                              -- run.id
  p.run_b_id AS run_b_id                               -- run.id
FROM run_pair p
CROSS JOIN (SELECT 0 AS back UNION ALL SELECT 1) d
CROSS JOIN comparison_graded s
CROSS JOIN tensor t
WHERE p.why_not IS NULL
  AND s.run_id = CASE WHEN d.back THEN p.run_b_id ELSE p.run_a_id END
  AND s.other_run_id = CASE WHEN d.back THEN p.run_a_id ELSE p.run_b_id END
  AND s.key_tensor_id IS NOT NULL AND (NOT d.back OR s.alone) AND t.id = s.key_tensor_id
GROUP BY p.run_a_id, p.run_b_id, p.run_a, p.run_b, t.id;
