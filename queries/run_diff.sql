-- One row per trace row of run_a and the row of run_b with the same prompt, phase, position, layer
-- and tensor. Name both runs: WHERE run_a = '...' AND run_b = '...'. Rows that only one run has show
-- as ONLY_A or ONLY_B.
CREATE VIEW run_diff AS
SELECT
  a.name AS run_a,                                     -- run.name
  b.name AS run_b,                                     -- run.name
  q.name AS prompt,
  h.name AS phase,
  nullif(x.pos_id, -1) AS pos_id,                      -- absolute 0-based position; NULL unknown
  x.layer AS layer,
  k.name AS tensor,                                    -- canonical
  CASE
    WHEN y.run_id IS NULL THEN 'ONLY_A'
    WHEN coalesce(x.nan > 0, 0) OR coalesce(x.inf > 0, 0) OR (x.flags & 1)
      OR coalesce(y.nan > 0, 0) OR coalesce(y.inf > 0, 0) OR (y.flags & 1) THEN 'NONFINITE'
    WHEN x.token_id IS NOT y.token_id THEN 'INCOMPARABLE'
    WHEN a.hash_algo = b.hash_algo AND x.hash IS NOT NULL AND y.hash IS NOT NULL AND x.n = y.n
      THEN CASE WHEN x.hash = y.hash THEN 'MATCH' ELSE 'DRIFT' END
    ELSE coalesce(
      (SELECT CASE WHEN u.data = w.data THEN 'MATCH' ELSE 'DRIFT' END FROM sample u, sample w
       WHERE u.id = x.vector_id AND w.id = y.vector_id AND u.n = w.n),
      (SELECT CASE WHEN v.diff_sq = 0 AND v.sum_sq_equal THEN 'MATCH' ELSE 'DRIFT' END
       FROM sketch_pair v WHERE v.a = x.vector_id AND v.b = y.vector_id),
      'INCOMPARABLE')
  END AS status,                                       -- MATCH, DRIFT, NONFINITE, INCOMPARABLE, ONLY_A, ONLY_B
  CASE WHEN a.hash_algo = b.hash_algo AND x.hash = y.hash AND x.n = y.n THEN NULL
       WHEN y.run_id IS NULL THEN NULL
       ELSE coalesce((SELECT CASE
           WHEN v.diff_sq = 0 AND v.sum_sq_equal AND x.hash IS NULL THEN NULL
           WHEN v.diff_sq = 0 OR sqrt(v.diff_sq / v.norm_sq) <= (
             SELECT rel_l2 FROM tolerance
             WHERE (tensor_id = x.tensor_id OR tensor_id IS NULL) AND (dtype = a.dtype OR dtype IS NULL)
             ORDER BY tensor_id IS NULL, dtype IS NULL LIMIT 1) THEN 'ROUNDING'
           ELSE 'DIVERGENT' END
         FROM sketch_pair v WHERE v.a = x.vector_id AND v.b = y.vector_id), 'UNKNOWN')
  END AS class,                                        -- of a DRIFT: ROUNDING, DIVERGENT, UNKNOWN, by run_a's tolerance
  CASE WHEN a.hash_algo = b.hash_algo AND x.hash = y.hash AND x.n = y.n THEN 0.0 ELSE
    (SELECT CASE WHEN v.diff_sq = 0 THEN 0.0 ELSE sqrt(v.diff_sq / v.norm_sq) END
     FROM sketch_pair v WHERE v.a = x.vector_id AND v.b = y.vector_id)
  END AS rel_l2,                                       -- estimated relative L2 distance
  CASE WHEN x.hash IS NOT NULL THEN printf('%llu', x.hash) END AS hash_a, -- unsigned decimal
  CASE WHEN y.hash IS NOT NULL THEN printf('%llu', y.hash) END AS hash_b, -- unsigned decimal
  a.id AS run_a_id, b.id AS run_b_id, x.tensor_id AS tensor_id
FROM run a
JOIN run b
JOIN trace_row x ON x.run_id = a.id
JOIN prompt q ON q.id = x.prompt_id
JOIN phase h ON h.id = x.phase_id
JOIN tensor k ON k.id = x.tensor_id
LEFT JOIN prompt o ON o.run_id = b.id AND o.name = q.name
LEFT JOIN trace_row y ON y.run_id = b.id AND y.prompt_id = o.id AND y.side = x.side
  AND y.pos_id = x.pos_id AND y.layer = x.layer AND y.tensor_id = x.tensor_id
  AND y.phase_id = x.phase_id AND y.step = x.step AND y.name_id = x.name_id
  AND y.occurrence = x.occurrence
UNION ALL
SELECT
  a.name, b.name, q.name, h.name, nullif(y.pos_id, -1), y.layer, k.name, 'ONLY_B', NULL, NULL, NULL,
  CASE WHEN y.hash IS NOT NULL THEN printf('%llu', y.hash) END, a.id, b.id, y.tensor_id
FROM run b
JOIN run a
JOIN trace_row y ON y.run_id = b.id
JOIN prompt q ON q.id = y.prompt_id
JOIN phase h ON h.id = y.phase_id
JOIN tensor k ON k.id = y.tensor_id
WHERE NOT EXISTS (
  SELECT 1 FROM prompt o JOIN trace_row x ON x.run_id = a.id AND x.prompt_id = o.id AND x.side = y.side
    AND x.pos_id = y.pos_id AND x.layer = y.layer AND x.tensor_id = y.tensor_id
    AND x.phase_id = y.phase_id AND x.step = y.step AND x.name_id = y.name_id
    AND x.occurrence = y.occurrence
  WHERE o.run_id = a.id AND o.name = q.name);
