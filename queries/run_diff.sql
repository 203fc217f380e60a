-- One row per prompt, phase, position, layer and trace point of two runs: does run_b compute what
-- run_a computed? Name both runs: WHERE run_a = '...' AND run_b = '...'. What only one run has shows
-- as ONLY_A or ONLY_B. As in `pair`, step and the name written are no part of the comparison (where
-- the position is unknown, step stands in for it), and rows that repeat are one.
CREATE VIEW run_diff AS
SELECT
  s.run_a AS run_a,                                    -- run.name
  s.run_b AS run_b,                                    -- run.name
  s.prompt AS prompt,                                  -- prompt of both runs
  s.phase AS phase,                                    -- prefill_last, prefill, decode0, decode
  nullif(s.pos_id, -1) AS pos_id,                      -- absolute 0-based position; NULL unknown
  s.layer AS layer,                                    -- -1: after the stack, in old files
  s.tensor AS tensor,                                  -- canonical
  s.status AS status,                                  -- MATCH, DRIFT, NONFINITE, AMBIGUOUS, INCOMPARABLE (also another token), ONLY_A, ONLY_B
  CASE WHEN s.status <> 'DRIFT' THEN NULL
       WHEN s.rel_l2 IS NULL THEN 'UNKNOWN'
       WHEN s.rel_l2 <= max(
         (SELECT rel_l2 FROM tolerance
          WHERE (tensor_id = s.tensor_id OR tensor_id IS NULL) AND (dtype = s.dtype_a OR dtype IS NULL)
          ORDER BY tensor_id IS NULL, dtype IS NULL LIMIT 1),
         (SELECT rel_l2 FROM tolerance
          WHERE (tensor_id = s.tensor_id OR tensor_id IS NULL) AND (dtype = s.dtype_b OR dtype IS NULL)
          ORDER BY tensor_id IS NULL, dtype IS NULL LIMIT 1)) THEN 'ROUNDING'
       ELSE 'DIVERGENT' END AS class,                  -- of a DRIFT: ROUNDING, DIVERGENT, UNKNOWN, by the tolerance of the coarser arithmetic of the two
  s.rel_l2 AS rel_l2,                                  -- estimated relative L2 distance, NULL when there is nothing to measure with
  CASE WHEN s.hash_a IS NOT NULL THEN printf('%llu', s.hash_a) END AS hash_a, -- unsigned decimal
  CASE WHEN s.hash_b IS NOT NULL THEN printf('%llu', s.hash_b) END AS hash_b, -- unsigned decimal
  s.run_a_id AS run_a_id,                              -- run.id
  s.run_b_id AS run_b_id,                              -- run.id
  s.tensor_id AS tensor_id                             -- tensor.id
FROM (
  SELECT
    j.*,
    CASE
      WHEN NOT j.in_b THEN 'ONLY_A'
      WHEN j.ambiguous THEN 'AMBIGUOUS'
      WHEN j.nonfinite THEN 'NONFINITE'
      WHEN j.other_token THEN 'INCOMPARABLE'
      WHEN j.by_hash THEN
        CASE WHEN j.hash_a = j.hash_b AND j.sample_equal IS NOT 0 THEN 'MATCH' ELSE 'DRIFT' END
      WHEN j.sample_equal IS NOT NULL THEN CASE WHEN j.sample_equal THEN 'MATCH' ELSE 'DRIFT' END
      ELSE coalesce(
        (SELECT CASE WHEN v.diff_sq = 0 AND v.sum_sq_equal THEN 'MATCH' ELSE 'DRIFT' END
         FROM sketch_pair v WHERE v.a = j.vector_a AND v.b = j.vector_b),
        'INCOMPARABLE')
    END AS status,
    CASE WHEN j.by_hash AND j.hash_a = j.hash_b AND j.sample_equal IS NOT 0 THEN 0.0
         WHEN j.other_token THEN NULL ELSE
      (SELECT CASE WHEN v.diff_sq = 0 THEN 0.0 ELSE sqrt(v.diff_sq / v.norm_sq) END
       FROM sketch_pair v WHERE v.a = j.vector_a AND v.b = j.vector_b
         AND NOT (v.derived AND j.by_hash AND j.sample_equal IS 1))
    END AS rel_l2
  FROM (
    SELECT
      a.name AS run_a, b.name AS run_b, a.id AS run_a_id, b.id AS run_b_id, a.dtype AS dtype_a,
      b.dtype AS dtype_b,
      q.name AS prompt, h.name AS phase, x.pos_id AS pos_id, x.layer AS layer, k.name AS tensor,
      x.tensor_id AS tensor_id, x.hash AS hash_a, y.hash AS hash_b,
      x.vector_id AS vector_a, y.vector_id AS vector_b,
      y.run_id IS NOT NULL AS in_b,
      x.token_id IS NOT y.token_id AS other_token,
      a.hash_algo = b.hash_algo AND x.hash IS NOT NULL AND y.hash IS NOT NULL
        AND x.n IS NOT NULL AND y.n IS x.n AS by_hash,
      (SELECT u.data = w.data FROM sample u, sample w
       WHERE u.id = x.vector_id AND w.id = y.vector_id AND u.n = w.n) AS sample_equal,
      coalesce(x.nan > 0, 0) OR coalesce(x.inf > 0, 0) OR (x.flags & 1)
        OR coalesce(y.nan > 0, 0) OR coalesce(y.inf > 0, 0) OR coalesce(y.flags & 1, 0) AS nonfinite,
      EXISTS (
        SELECT 1 FROM trace_row e
        WHERE e.run_id = x.run_id AND e.prompt_id = x.prompt_id AND e.side = x.side
          AND e.pos_id = x.pos_id AND e.layer = x.layer AND e.tensor_id = x.tensor_id
          AND e.phase_id = x.phase_id AND (x.pos_id >= 0 OR e.step = x.step)
          AND (e.step, e.name_id, e.occurrence) > (x.step, x.name_id, x.occurrence)
          AND ((e.token_id, e.n, e.hash, e.min, e.max, e.mean, e.abs_sum, e.nan, e.inf, e.nz_count, e.flags & 1)
                 IS NOT (x.token_id, x.n, x.hash, x.min, x.max, x.mean, x.abs_sum, x.nan, x.inf, x.nz_count, x.flags & 1)
               OR (SELECT data FROM sample WHERE id = e.vector_id)
                 IS NOT (SELECT data FROM sample WHERE id = x.vector_id))
      ) OR EXISTS (
        SELECT 1 FROM trace_row e
        WHERE e.run_id = y.run_id AND e.prompt_id = y.prompt_id AND e.side = y.side
          AND e.pos_id = y.pos_id AND e.layer = y.layer AND e.tensor_id = y.tensor_id
          AND e.phase_id = y.phase_id AND (y.pos_id >= 0 OR e.step = y.step)
          AND (e.step, e.name_id, e.occurrence) > (y.step, y.name_id, y.occurrence)
          AND ((e.token_id, e.n, e.hash, e.min, e.max, e.mean, e.abs_sum, e.nan, e.inf, e.nz_count, e.flags & 1)
                 IS NOT (y.token_id, y.n, y.hash, y.min, y.max, y.mean, y.abs_sum, y.nan, y.inf, y.nz_count, y.flags & 1)
               OR (SELECT data FROM sample WHERE id = e.vector_id)
                 IS NOT (SELECT data FROM sample WHERE id = y.vector_id))
      ) AS ambiguous
    FROM run a
    JOIN run b
    JOIN trace_row x ON x.run_id = a.id
    JOIN prompt q ON q.id = x.prompt_id
    JOIN phase h ON h.id = x.phase_id
    JOIN tensor k ON k.id = x.tensor_id
    LEFT JOIN prompt o ON o.run_id = b.id AND o.name = q.name
    LEFT JOIN trace_row y ON y.run_id = b.id AND y.prompt_id = o.id AND y.side = x.side
      AND y.pos_id = x.pos_id AND y.layer = x.layer AND y.tensor_id = x.tensor_id
      AND y.phase_id = x.phase_id AND (x.pos_id >= 0 OR y.step = x.step)
      AND NOT EXISTS (
        SELECT 1 FROM trace_row e
        WHERE e.run_id = y.run_id AND e.prompt_id = y.prompt_id AND e.side = y.side
          AND e.pos_id = y.pos_id AND e.layer = y.layer AND e.tensor_id = y.tensor_id
          AND e.phase_id = y.phase_id AND (y.pos_id >= 0 OR e.step = y.step)
          AND (e.step, e.name_id, e.occurrence) < (y.step, y.name_id, y.occurrence))
    WHERE NOT EXISTS (
      SELECT 1 FROM trace_row e
      WHERE e.run_id = x.run_id AND e.prompt_id = x.prompt_id AND e.side = x.side
        AND e.pos_id = x.pos_id AND e.layer = x.layer AND e.tensor_id = x.tensor_id
        AND e.phase_id = x.phase_id AND (x.pos_id >= 0 OR e.step = x.step)
        AND (e.step, e.name_id, e.occurrence) < (x.step, x.name_id, x.occurrence))
  ) j
) s
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
    SELECT 1 FROM prompt o JOIN trace_row x ON x.run_id = a.id AND x.prompt_id = o.id
      AND x.side = y.side AND x.pos_id = y.pos_id AND x.layer = y.layer AND x.tensor_id = y.tensor_id
      AND x.phase_id = y.phase_id AND (y.pos_id >= 0 OR x.step = y.step)
    WHERE o.run_id = a.id AND o.name = q.name)
  AND NOT EXISTS (
    SELECT 1 FROM trace_row e
    WHERE e.run_id = y.run_id AND e.prompt_id = y.prompt_id AND e.side = y.side
      AND e.pos_id = y.pos_id AND e.layer = y.layer AND e.tensor_id = y.tensor_id
      AND e.phase_id = y.phase_id AND (y.pos_id >= 0 OR e.step = y.step)
      AND (e.step, e.name_id, e.occurrence) < (y.step, y.name_id, y.occurrence));
