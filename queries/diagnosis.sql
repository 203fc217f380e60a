-- One row per finding about a place (layer and tensor) where prompts of a run fail first: beyond rounding, in a run
-- whose rows are to be equal by any bit. It is what the rows of several pairs there look like, from what is stored
-- alone; prompt and position are those of the first pair that tells. No row: nothing of these kinds is seen. Reports
-- say it in words.
CREATE VIEW diagnosis AS
SELECT
  d.run AS run,                                        -- run.name
  d.prompt AS prompt,                                  -- of the first pair that tells
  d.layer AS layer,                                    -- of the pair
  d.tensor AS tensor,                                  -- as the prefill row names it
  d.finding AS finding,                                -- a name of the table finding
  d.side AS side,                                      -- whose row is so: prefill, decode; NULL: both
  d.other_side AS other_side,                          -- whose row it is instead (OTHER_POSITION, STALE_ROW, OTHER_LAYER, OTHER_TENSOR), or is so by (FEWER_VALUES, SCALED, ADDED)
  d.other_tensor AS other_tensor,                      -- and that row's tensor, if another one; EARLIER_ROW: what of this position is as it should be; MISSING_WEIGHT: the input; ADDED: the term
  d.unit AS unit,                                      -- what the next two are: position, layer; ONSET: position, or tokens (length of a prompt)
  d.at AS at,                                          -- where the row is; TAIL, SOME_VALUES: first value; ONSET: the first that fails
  d.other_at AS other_at,                              -- where that row belongs; TAIL, SOME_VALUES: last value; ONSET: the last that does not fail
  d.count AS count,                                    -- values, heads, zeros more (FEWER_VALUES), repeats, different rows, trace points that agree (RECORD_ONLY); ONSET: size of a block that `at` is a multiple of, or one more
  d.of_count AS of_count,                              -- of how many; ONSET: the batch, if `at` is a multiple of it
  d.value AS value,                                    -- NOT_ONE: sum of the probabilities; SCALED, MISSING_WEIGHT, ADDED: the factor
  d.distance AS distance,                              -- relative L2 distance of the rows, but for a factor
  d.meaning AS meaning,                                -- what such rows usually come from
  nullif(d.pos_id, -1) AS pos_id,                                -- absolute 0-based position
  d.ord AS ord,                                        -- the most telling first
  d.run_id AS run_id,                                  -- run.id
  d.prompt_id AS prompt_id                             -- prompt.id
FROM (
  SELECT
    e.*, k.ord AS ord, k.meaning AS meaning,
    max(CASE WHEN k.ord < 100 THEN e.votes ELSE 0 END) OVER place AS most, max(e.finding = 'UNSTABLE') OVER place AS unstable
  FROM (
    SELECT
      c.*, sum(c.nth_of_pair = 1) OVER (PARTITION BY c.run_id, c.run, c.layer, c.tensor, c.finding, c.unit) AS votes,
      row_number() OVER (PARTITION BY c.run_id, c.run, c.layer, c.tensor, c.finding, c.unit
        ORDER BY c.pos_id = 0, c.prompt_id, c.pos_id, c.rank) AS nth
    FROM (
      SELECT
        u.*, row_number() OVER (PARTITION BY u.run_id, u.run, u.layer, u.tensor, u.finding, u.unit, u.prompt_id, u.pos_id ORDER BY u.rank) AS nth_of_pair
      FROM (
        SELECT * FROM finding_in_row
        UNION ALL
        SELECT * FROM finding_elsewhere
        UNION ALL
        -- nothing that is computed from the row differs; queries and keys that are turned alike give the same scores
        SELECT
          f.run, f.prompt, f.layer, f.tensor, 'RECORD_ONLY', NULL, NULL, NULL, NULL, NULL, NULL, f.agree, NULL, NULL, NULL,
          f.pos_id, f.run_id, f.prompt_id, 0
        FROM (
          SELECT
            f.*, (
              SELECT CASE WHEN min(x.hash = y.hash OR NOT f.strict AND EXISTS (
                SELECT 1 FROM difference v
                WHERE v.run_id = x.run_id AND v.prompt_id = x.prompt_id AND v.pos_id = x.pos_id AND v.layer = x.layer
                  AND v.tensor_id = x.tensor_id AND v.prefill_hash = x.hash AND v.decode_hash = y.hash
                  AND v.rel_l2 <= (SELECT e.rel_l2 FROM run_tolerance e WHERE e.run_id = x.run_id AND e.tensor_id = x.tensor_id)))
                THEN count(*) END
              FROM edge e
              CROSS JOIN tensor t ON t.id = e.to_id AND t.ord > f.point_ord
              CROSS JOIN trace_row x ON x.run_id = f.run_id AND x.prompt_id = f.prompt_id AND x.side = 0 AND x.pos_id = f.pos_id
                AND x.layer = CASE e.layer WHEN 'same' THEN f.layer WHEN 'previous' THEN f.layer + 1 ELSE -1 END
                AND x.tensor_id = e.to_id AND x.stands
              CROSS JOIN trace_row y ON y.run_id = x.run_id AND y.prompt_id = x.prompt_id AND y.side = 1 AND y.pos_id = x.pos_id
                AND y.layer = x.layer AND y.tensor_id = x.tensor_id AND y.stands
              WHERE e.from_id = f.tensor_id) AS agree
          FROM failing_row f
          WHERE f.side = 1 AND NOT f.equal AND (f.strict OR f.rel_l2 > 100 * f.tolerance AND NOT f.turns)) f
        WHERE f.agree > 0
        UNION ALL
        -- a row is its input but for a factor, as a norm without its weights is; or differs by a multiple of an earlier row
        SELECT
          z.run, z.prompt, z.layer, z.tensor, z.finding, z.side_name, CASE z.finding WHEN 'ADDED' THEN z.other_side_name END,
          (SELECT m.name FROM tensor_name m WHERE m.id = z.name_id), NULL, NULL, NULL, NULL, NULL, z.times, NULL,
          z.pos_id, z.run_id, z.prompt_id, z.name_id
        FROM (
          SELECT
            f.*, o.name_id AS name_id,
            CASE
              WHEN o.hash <> f.hash AND 1 - a.xy * a.xy / (a.xx * a.yy) <= pow(max(f.tolerance, 1e-6), 2) AND 1 - b.xy * b.xy / (b.xx * b.yy) > max(100 * (1 - a.xy * a.xy / (a.xx * a.yy)), 1e-10)
                AND EXISTS (SELECT 1 FROM edge e WHERE e.to_id = f.tensor_id AND e.from_id = o.tensor_id AND e.kind = 'input') THEN 'MISSING_WEIGHT'
              WHEN f.side = 1 AND g.xx + g.yy - 2 * g.xy > 1e-6 * g.sum_sq AND g.xy * g.xy < 0.999999 * g.xx * g.yy
                AND 1 - pow(a.xy - b.xy, 2) / a.xx / (g.xx + g.yy - 2 * g.xy) < 1e-4 THEN 'ADDED'
            END AS finding,
            CASE WHEN 1 - a.xy * a.xy / (a.xx * a.yy) <= pow(max(f.tolerance, 1e-6), 2) THEN a.xy / a.xx ELSE (a.xy - b.xy) / a.xx END AS times
          FROM failing_row f
          CROSS JOIN trace_row o ON o.run_id = f.run_id AND o.prompt_id = f.prompt_id AND o.side = f.side AND o.pos_id = f.pos_id
            AND o.layer = f.layer AND o.n = f.n AND o.stands AND +o.tensor_id < f.tensor_id
          CROSS JOIN sketch_pair a ON a.x_id = o.sketch_id AND a.y_id = f.sketch_id
          CROSS JOIN sketch_pair b ON b.x_id = o.sketch_id AND b.y_id = f.other_sketch_id
          CROSS JOIN sketch_pair g ON g.x_id = f.other_sketch_id AND g.y_id = f.sketch_id
          WHERE NOT f.equal AND f.finite AND f.n >= 16) z
        WHERE z.finding IS NOT NULL
        UNION ALL
        -- two tokens whose rows differ by the same amount
        SELECT
          f.run, f.prompt, f.layer, f.tensor, 'MISSING_WEIGHT', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
          f.pos_id, f.run_id, f.prompt_id, 1
        FROM failing_row f
        CROSS JOIN failing_row h ON h.run_id = f.run_id AND h.run = f.run AND h.layer = f.layer AND h.tensor = f.tensor
          AND h.side = 1 AND h.begins = 1 AND h.finite AND h.token_id <> f.token_id
        CROSS JOIN sketch_pair p ON p.x_id = f.sketch_id AND p.y_id = h.sketch_id
        CROSS JOIN sketch_pair q ON q.x_id = f.other_sketch_id AND q.y_id = h.other_sketch_id
        CROSS JOIN sketch_pair r ON r.x_id = f.sketch_id AND r.y_id = h.other_sketch_id
        CROSS JOIN sketch_pair s ON s.x_id = f.other_sketch_id AND s.y_id = h.sketch_id
        CROSS JOIN sketch_pair a ON a.x_id = f.other_sketch_id AND a.y_id = f.sketch_id
        CROSS JOIN sketch_pair b ON b.x_id = h.other_sketch_id AND b.y_id = h.sketch_id
        WHERE f.side = 1 AND NOT f.equal AND f.finite AND f.n >= 16 AND a.xx + a.yy - 2 * a.xy > 1e-6 * a.sum_sq
          -- the differences are d and e: |d - e|^2 is next to nothing of |d|^2
          AND a.xx + a.yy - 2 * a.xy + b.xx + b.yy - 2 * b.xy - 2 * (p.xy + q.xy - r.xy - s.xy) < 1e-4 * (a.xx + a.yy - 2 * a.xy)) u) c) e
  JOIN finding k ON k.name = e.finding
  WINDOW place AS (PARTITION BY e.run_id, e.run, e.layer, e.tensor)) d
WHERE d.nth = 1 AND NOT (d.finding = 'REPEATED' AND d.unstable)
  -- what rows tell that are not traced everywhere counts once it is seen, and all else where most pairs agree
  AND (d.votes * 2 >= d.most OR d.ord < 10 OR d.ord >= 100);
