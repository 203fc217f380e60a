-- run_diff counted by status and class; every two runs have a row, so that two without a row in
-- common are not lost. Name both runs.
CREATE VIEW diff_count AS
SELECT
  s.run AS run_a, s.other_run AS run_b, s.run_id AS run_a_id, s.other_run_id AS run_b_id,
  CASE s.status WHEN 'ALONE' THEN 'ONLY_A' ELSE s.status END AS status, s.class AS class, count(*) AS count
FROM comparison_graded s
WHERE s.axis = 'runs' AND s.key_tensor_id IS NOT NULL
GROUP BY s.run, s.other_run, s.run_id, s.other_run_id, s.status, s.class
UNION ALL
SELECT s.other_run, s.run, s.other_run_id, s.run_id, 'ONLY_B', NULL, count(*)
FROM comparison_graded s
WHERE s.axis = 'runs' AND s.alone AND s.key_tensor_id IS NOT NULL
GROUP BY s.other_run, s.run, s.other_run_id, s.run_id
UNION ALL
SELECT a.name, b.name, a.id, b.id, '', NULL, 0
FROM run a
JOIN run b;
