-- Runs and what they are held against, of which it is not kept how they compare: see unkept_pair.
CREATE VIEW undiffed_pair AS
SELECT p.run_a_id AS run_a_id, p.run_b_id AS run_b_id, p.run_a AS run_a, p.run_b AS run_b, p.why_not AS why_not
FROM run_baseline l
CROSS JOIN run a ON a.id = l.baseline_id
CROSS JOIN unkept_pair p ON p.run_a_id = a.id AND p.run_b_id = l.run_id;
