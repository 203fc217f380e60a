-- Every two runs of which it is not kept how they compare. Name both.
CREATE VIEW unkept_pair AS
SELECT p.run_a_id AS run_a_id, p.run_b_id AS run_b_id, p.run_a AS run_a, p.run_b AS run_b, p.why_not AS why_not
FROM run_pair p
WHERE NOT EXISTS (SELECT 1 FROM kept_diff k WHERE k.run_a_id = p.run_a_id AND k.run_b_id = p.run_b_id);
