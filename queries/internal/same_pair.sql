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
    SELECT 1 FROM prompt o
    -- both sides come in the order of their key, so that SQLite merges them and seeks nothing
    WHERE o.run_id = p.run_a_id AND EXISTS (SELECT 1 FROM (
      SELECT
        x.side, x.pos_id, x.layer, x.tensor_id, x.nth, x.phase_id, x.token_id, x.n, x.hash, x.min, x.max, x.mean,
        x.abs_sum, x.nan, x.inf, x.nz_count, x.flags, x.crowded,
        CASE WHEN x.vector_id IS NOT NULL THEN (SELECT data FROM sample WHERE id = x.vector_id) END
      FROM trace_row x
      WHERE x.run_id = p.run_a_id AND x.prompt_id = o.id
      EXCEPT
      SELECT
        y.side, y.pos_id, y.layer, y.tensor_id, y.nth, y.phase_id, y.token_id, y.n, y.hash, y.min, y.max, y.mean,
        y.abs_sum, y.nan, y.inf, y.nz_count, y.flags, y.crowded,
        CASE WHEN y.vector_id IS NOT NULL THEN (SELECT data FROM sample WHERE id = y.vector_id) END
      FROM trace_row y
      WHERE y.run_id = p.run_b_id
        AND y.prompt_id = (SELECT q.id FROM prompt q WHERE q.run_id = p.run_b_id AND q.name = o.name)
        AND NOT y.crowded AND y.pos_id >= 0 AND y.n > 0 AND y.hash IS NOT NULL
        AND ifnull(y.nan, 0) = 0 AND ifnull(y.inf, 0) = 0 AND (y.flags & 1) = 0
      ORDER BY 1, 2, 3, 4, 5 LIMIT 1)));
