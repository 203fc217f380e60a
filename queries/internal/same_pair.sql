-- Two runs that hold the same rows, all of them with a hash and finite: each matches, and nobody has to
-- look at them one by one. Name both runs.
CREATE VIEW same_pair AS
SELECT
  p.run_a_id AS run_a_id, p.run_b_id AS run_b_id,
  (SELECT count(*) FROM trace_row x WHERE x.run_id = p.run_a_id) AS count
FROM run_pair p
JOIN run a ON a.id = p.run_a_id
JOIN run b ON b.id = p.run_b_id
WHERE p.why_not IS NULL AND a.hash_algo = b.hash_algo
  AND (SELECT count(*) FROM trace_row x WHERE x.run_id = p.run_a_id)
    = (SELECT count(*) FROM trace_row y WHERE y.run_id = p.run_b_id)
  AND NOT EXISTS (
    SELECT 1 FROM prompt o CROSS JOIN trace_row x ON x.run_id = p.run_a_id AND x.prompt_id = o.id
    WHERE o.run_id = p.run_a_id AND NOT EXISTS (
      SELECT 1 FROM trace_row y
      WHERE y.run_id = p.run_b_id
        AND y.prompt_id = (SELECT q.id FROM prompt q WHERE q.run_id = p.run_b_id AND q.name = o.name)
        AND y.side = x.side AND y.pos_id = x.pos_id AND y.layer = x.layer AND y.tensor_id = x.tensor_id
        AND NOT x.crowded AND NOT y.crowded AND x.pos_id >= 0 AND y.nth = x.nth AND y.phase_id = x.phase_id
        AND y.hash = x.hash AND y.n = x.n AND x.n > 0
        AND (y.token_id, y.min, y.max, y.mean, y.abs_sum, y.nan, y.inf, y.nz_count, y.flags)
         IS (x.token_id, x.min, x.max, x.mean, x.abs_sum, x.nan, x.inf, x.nz_count, x.flags)
        AND (SELECT data FROM sample WHERE id = y.vector_id)
         IS (SELECT data FROM sample WHERE id = x.vector_id)
        AND ifnull(x.nan, 0) = 0 AND ifnull(x.inf, 0) = 0 AND (x.flags & 1) = 0));
