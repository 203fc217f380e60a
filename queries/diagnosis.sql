-- One row per finding about the first pair of a run and prompt that is beyond rounding: what its rows
-- look like, from what is stored alone. No row: nothing of these kinds is seen.
CREATE VIEW diagnosis AS
SELECT
  d.run AS run,                                        -- run.name
  d.prompt AS prompt,                                  -- prompt of the run
  d.layer AS layer,                                    -- of the pair
  d.tensor AS tensor,                                  -- as the prefill row names it
  d.finding AS finding,                                -- ALL_NAN, ALL_ZERO, OTHER_POSITION, STALE_ROW, OTHER_LAYER, OTHER_TENSOR, SCALED, PERMUTED, TURNED, FEWER_VALUES, TAIL, UNSTABLE, ONSET
  d.evidence AS evidence,                              -- in words
  d.meaning AS meaning,                                -- what such rows usually come from
  d.pos_id AS pos_id,                                  -- absolute 0-based position
  d.ord AS ord,                                        -- the most telling first
  d.run_id AS run_id,                                  -- run.id
  d.prompt_id AS prompt_id                             -- prompt.id
FROM (
  SELECT
    f.run AS run, q.name AS prompt, f.layer AS layer, m.name AS tensor, k.name AS finding,
    k.meaning AS meaning, k.ord AS ord, nullif(f.pos_id, -1) AS pos_id, f.run_id AS run_id,
    f.prompt_id AS prompt_id,
    CASE k.name
      WHEN 'ALL_NAN' THEN
        CASE
          WHEN f.y_n > 0 AND f.y_nan = f.y_n AND f.x_n > 0 AND f.x_nan = f.x_n THEN 'every value of both rows is NaN'
          WHEN f.y_n > 0 AND f.y_nan = f.y_n THEN 'every value of decode''s row is NaN'
          WHEN f.x_n > 0 AND f.x_nan = f.x_n THEN 'every value of prefill''s row is NaN' END
      WHEN 'ALL_ZERO' THEN
        CASE
          WHEN f.y_nz = 0 AND f.x_nz > 0 THEN 'every value of decode''s row is 0'
          WHEN f.x_nz = 0 AND f.y_nz > 0 THEN 'every value of prefill''s row is 0' END
      -- rows that are equal where they should not be: as they should not, one of the pair is neither
      WHEN 'OTHER_POSITION' THEN (
        SELECT printf('decode''s row of position %d is prefill''s of position %d', f.pos_id, o.pos_id)
        FROM trace_row o
        WHERE o.run_id = f.run_id AND o.prompt_id = f.prompt_id AND o.side = 0
          AND o.pos_id IN (f.pos_id - 1, f.pos_id + 1) AND o.layer = f.layer AND o.tensor_id = f.tensor_id
          AND o.hash = f.y_hash AND o.n = f.y_n AND o.hash IS NOT f.x_hash
          AND f.y_nan IS NOT f.y_n AND f.y_nz IS NOT 0
          AND (o.token_id IS NULL OR o.token_id IS NOT f.token_id)
          AND NOT EXISTS (SELECT 1 FROM edge e WHERE e.from_id = f.tensor_id AND e.kind = 'weight')
        ORDER BY o.pos_id LIMIT 1)
      WHEN 'STALE_ROW' THEN (
        SELECT printf('%s''s row of position %d is its own of position %d',
          CASE o.side WHEN 0 THEN 'prefill' ELSE 'decode' END, f.pos_id, o.pos_id)
        FROM trace_row o
        WHERE o.run_id = f.run_id AND o.prompt_id = f.prompt_id AND o.side IN (0, 1)
          AND o.pos_id = f.pos_id - 1 AND o.layer = f.layer AND o.tensor_id = f.tensor_id
          AND o.hash = CASE o.side WHEN 0 THEN f.x_hash ELSE f.y_hash END AND f.x_hash IS NOT f.y_hash
          AND f.y_nan IS NOT f.y_n AND f.y_nz IS NOT 0 AND f.x_nan IS NOT f.x_n AND f.x_nz IS NOT 0
          AND (o.token_id IS NULL OR o.token_id IS NOT f.token_id)
          AND NOT EXISTS (SELECT 1 FROM edge e WHERE e.from_id = f.tensor_id AND e.kind = 'weight')
        ORDER BY o.side DESC LIMIT 1)
      WHEN 'OTHER_LAYER' THEN (
        SELECT printf('decode''s row of layer %d is prefill''s of layer %d', f.layer, o.layer)
        FROM trace_row o
        WHERE o.run_id = f.run_id AND o.prompt_id = f.prompt_id AND o.side = 0 AND o.pos_id = f.pos_id
          AND o.layer <> f.layer AND o.tensor_id = f.tensor_id
          AND o.hash = f.y_hash AND o.n = f.y_n AND o.hash IS NOT f.x_hash
          AND f.y_nan IS NOT f.y_n AND f.y_nz IS NOT 0
          AND NOT EXISTS (SELECT 1 FROM edge e WHERE e.from_id = f.tensor_id AND e.kind = 'weight')
        ORDER BY o.layer LIMIT 1)
      WHEN 'OTHER_TENSOR' THEN (
        SELECT printf('decode''s %s is %s''s %s of this layer', m.name,
          CASE o.side WHEN 0 THEN 'prefill' ELSE 'decode' END,
          (SELECT name FROM tensor_name WHERE id = o.name_id))
        FROM trace_row o
        WHERE o.run_id = f.run_id AND o.prompt_id = f.prompt_id AND o.side IN (0, 1) AND o.pos_id = f.pos_id
          AND o.layer = f.layer AND o.tensor_id <> f.tensor_id
          AND o.hash = f.y_hash AND o.n = f.y_n AND f.x_hash IS NOT f.y_hash
          AND f.y_nan IS NOT f.y_n AND f.y_nz IS NOT 0  -- a row of one value is that of many
          AND NOT EXISTS (SELECT 1 FROM edge e WHERE e.kind IN ('copy', 'alias')
            AND (e.to_id, e.from_id) IN (VALUES (f.tensor_id, o.tensor_id), (o.tensor_id, f.tensor_id)))
        ORDER BY o.side, o.tensor_id LIMIT 1)
      WHEN 'SCALED' THEN (
        SELECT printf('decode''s row is %.6g times prefill''s, but for a relative distance of %.2g', z.factor, z.apart)
        FROM sketch_pair z
        WHERE z.x_id = f.x_vector AND z.y_id = f.y_vector AND f.y_n > 3
          AND abs(z.factor - 1) > 4 * z.apart
          AND z.apart <= (SELECT t.rel_l2 FROM run_tolerance t WHERE t.run_id = f.run_id AND t.tensor_id = f.tensor_id))
      WHEN 'PERMUTED' THEN
        CASE WHEN f.x_hash <> f.y_hash AND f.x_n = f.y_n AND f.x_n > 2 AND f.x_nz = f.y_nz AND f.x_min = f.y_min
            AND f.x_max = f.y_max AND f.x_mean = f.y_mean AND f.x_abs = f.y_abs
            AND EXISTS (SELECT 1 FROM sketch_pair z WHERE z.x_id = f.x_vector AND z.y_id = f.y_vector
                          AND abs(z.norm_ratio - 1) < 1e-9)
          THEN 'both rows have the same values, in another order' END
      WHEN 'TURNED' THEN (
        SELECT printf('both rows have the same norm and point elsewhere: a relative distance of %.2g', z.apart)
        FROM sketch_pair z
        WHERE z.x_id = f.x_vector AND z.y_id = f.y_vector AND abs(z.norm_ratio - 1) <= 1e-5 AND z.apart > 0.02
          -- norms are equal by their nature after a rotation, and after a norm
          AND (SELECT t.switch_on FROM tensor t WHERE t.id = f.tensor_id) IS NOT NULL)
      WHEN 'FEWER_VALUES' THEN
        CASE WHEN ifnull(f.x_nan, 0) + ifnull(f.x_inf, 0) + ifnull(f.y_nan, 0) + ifnull(f.y_inf, 0) > 0 THEN NULL
          WHEN f.y_n = f.x_n AND f.y_nz BETWEEN 1 AND f.x_nz - 1
            THEN printf('decode''s row has %d zeros more than prefill''s, of %d values', f.x_nz - f.y_nz, f.y_n)
          WHEN f.y_n = f.x_n AND f.x_nz BETWEEN 1 AND f.y_nz - 1
            THEN printf('prefill''s row has %d zeros more than decode''s, of %d values', f.y_nz - f.x_nz, f.x_n) END
      WHEN 'TAIL' THEN (
        SELECT printf('the first %d of %d values are equal', min(u.n, v.n), f.y_n)
        FROM sample u JOIN sample v ON v.id = f.y_vector
        WHERE u.id = f.x_vector AND f.x_hash IS NOT f.y_hash AND min(u.n, v.n) BETWEEN 1 AND f.y_n - 1
          AND substr(u.data, 1, 4 * v.n) = substr(v.data, 1, 4 * u.n))
      WHEN 'UNSTABLE' THEN (
        SELECT printf('%d different rows of %s at this place', count(DISTINCT o.hash),
          CASE o.side WHEN 0 THEN 'prefill' ELSE 'decode' END)
        FROM trace_row o
        WHERE o.run_id = f.run_id AND o.prompt_id = f.prompt_id AND o.side IN (0, 1) AND o.pos_id = f.pos_id
          AND o.layer = f.layer AND o.tensor_id = f.tensor_id AND o.token_id IS f.token_id
        GROUP BY o.side HAVING count(DISTINCT o.hash) > 1 ORDER BY o.side DESC LIMIT 1)
      WHEN 'ONSET' THEN (
        SELECT printf('positions up to %d are clean, none from %d on%s', b.last_clean, b.first_bad,
          CASE WHEN b.first_bad % 256 = 0 THEN ': a multiple of 256' WHEN b.first_bad % 128 = 0 THEN ': a multiple of 128'
               WHEN b.first_bad % 96 = 0 THEN ': a multiple of 96' WHEN b.first_bad % 64 = 0 THEN ': a multiple of 64'
               WHEN b.first_bad % 32 = 0 THEN ': a multiple of 32' WHEN b.first_bad % 16 = 0 THEN ': a multiple of 16'
               ELSE '' END)
        FROM (
          SELECT max(CASE WHEN g.bad THEN -1 ELSE g.pos_id END) AS last_clean,
            min(CASE WHEN g.bad THEN g.pos_id END) AS first_bad,
            min(coalesce(g.bad OR g.clean, 0)) AS all_known,
            count(DISTINCT CASE WHEN g.bad THEN g.pos_id END) AS n_bad,
            count(DISTINCT CASE WHEN g.clean THEN g.pos_id END) AS n_clean
          FROM place_grade g
          WHERE g.run_id = f.run_id AND g.layer = f.layer AND g.tensor_id = f.tensor_id) b
        WHERE b.last_clean BETWEEN 0 AND b.first_bad - 1 AND b.all_known
          AND b.n_bad > 1 AND b.n_clean > 1)  -- more than one on either side
    END AS evidence
  FROM failing_place f
  JOIN prompt q ON q.id = f.prompt_id
  JOIN tensor_name m ON m.id = f.name_id
  CROSS JOIN finding k
) d
WHERE d.evidence IS NOT NULL;
