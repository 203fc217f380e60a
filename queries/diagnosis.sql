-- One row per finding about the first pair of a run and prompt that is beyond rounding, or in a run whose
-- rows are to be equal the first that differs: what its rows look like, from what is stored alone. No
-- row: nothing of these kinds is seen. Reports say it in words.
CREATE VIEW diagnosis AS
WITH RECURSIVE head(h) AS (SELECT 0 UNION ALL SELECT h + 1 FROM head WHERE h < 255)
SELECT
  d.run AS run,                                        -- run.name
  d.prompt AS prompt,                                  -- prompt of the run
  d.layer AS layer,                                    -- of the pair
  d.tensor AS tensor,                                  -- as the prefill row names it
  d.finding AS finding,                                -- UNSTABLE, STATE, ALL_NAN, SOME_NAN, ALL_ZERO, OTHER_POSITION, STALE_ROW, OTHER_LAYER, OTHER_TENSOR, EARLIER_ROW, OTHER_HEAD, SOME_HEADS, NOT_ONE, SCALED, PERMUTED, TURNED, FEWER_VALUES, TAIL, FEW_VALUES, ROUNDING, FEWER_BITS, UNRELATED, ONSET, REPEATED
  d.side AS side,                                      -- whose row is so: prefill, decode; NULL: both
  d.other_side AS other_side,                          -- whose row it is instead (OTHER_POSITION, STALE_ROW, OTHER_LAYER, OTHER_TENSOR, OTHER_HEAD), or is so by (FEWER_VALUES, SCALED)
  d.other_tensor AS other_tensor,                      -- and that row's tensor, if another one; EARLIER_ROW: what of this position is as it should be
  d.unit AS unit,                                      -- what the next two are: position, layer, head; ONSET: position, or tokens (length of a prompt)
  d.at AS at,                                          -- where the row is; ONSET: the first that fails
  d.other_at AS other_at,                              -- where that row belongs; ONSET: the last that does not fail
  d.count AS count,                                    -- values, heads, zeros more (FEWER_VALUES), repeats, different rows, equal buckets of sketches (FEW_VALUES); ONSET: size of a block that `at` is a multiple of, or one more
  d.of_count AS of_count,                              -- of how many; ONSET: the batch, if `at` is a multiple of it
  d.value AS value,                                    -- NOT_ONE: sum of the probabilities; SCALED: the factor
  d.distance AS distance,                              -- relative L2 distance of the rows, but for a factor
  k.meaning AS meaning,                                -- what such rows usually come from
  nullif(d.pos_id, -1) AS pos_id,                                -- absolute 0-based position
  k.ord AS ord,                                        -- the most telling first
  d.run_id AS run_id,                                  -- run.id
  d.prompt_id AS prompt_id                             -- prompt.id
FROM (
  SELECT c.*, row_number() OVER (PARTITION BY c.run_id, c.run, c.prompt_id, c.prompt, c.finding, c.unit ORDER BY c.rank) AS nth
  FROM (
    -- statistics of one side
    SELECT
      f.run AS run, f.prompt AS prompt, f.layer AS layer, f.tensor AS tensor, k.name AS finding,
      CASE WHEN k.name IN ('ROUNDING', 'TAIL') OR k.name = 'ALL_NAN' AND f.other_n > 0 AND f.other_nan = f.other_n THEN NULL
        ELSE f.side_name END AS side,
      CASE k.name WHEN 'FEWER_VALUES' THEN f.other_side_name END AS other_side, NULL AS other_tensor, NULL AS unit, NULL AS at, NULL AS other_at,
      CASE k.name WHEN 'SOME_NAN' THEN f.nan + f.inf WHEN 'FEWER_VALUES' THEN f.other_nz - f.nz
        WHEN 'NOT_ONE' THEN f.n / (f.pos_id + 1) WHEN 'TAIL' THEN min(length(f.sample), length(f.other_sample)) / 4 END AS count,
      CASE WHEN k.name IN ('SOME_NAN', 'FEWER_VALUES', 'TAIL') THEN f.n END AS of_count,
      CASE k.name WHEN 'NOT_ONE' THEN f.abs_sum END AS value, NULL AS distance,
      f.pos_id AS pos_id, f.run_id AS run_id, f.prompt_id AS prompt_id, 1 - f.side AS rank
    FROM failing_row f
    CROSS JOIN finding k
    WHERE k.name IN (
      CASE WHEN f.n > 0 AND f.nan = f.n THEN 'ALL_NAN' END,
      CASE WHEN f.nan + f.inf > 0 AND f.nan < f.n AND NOT f.other_nan + f.other_inf > 0 THEN 'SOME_NAN' END,
      CASE WHEN f.nz = 0 AND f.other_nz > 0 THEN 'ALL_ZERO' END,
      CASE WHEN f.finite AND f.n = f.other_n AND f.nz BETWEEN 1 AND f.other_nz - 1 THEN 'FEWER_VALUES' END,
      -- probabilities over all keys, head by head
      CASE WHEN f.finite AND f.point = 'attn_probs' AND f.n = f.other_n AND f.n % (f.pos_id + 1) = 0
        AND abs(f.abs_sum / (f.n / (f.pos_id + 1)) - 1) > 1e-3 THEN 'NOT_ONE' END,
      CASE WHEN f.side = 1 AND f.hash IS NOT f.other_hash
        AND min(length(f.sample), length(f.other_sample)) BETWEEN 4 AND 4 * (f.n - 1)
        AND substr(f.sample, 1, length(f.other_sample)) = substr(f.other_sample, 1, length(f.sample)) THEN 'TAIL' END,
      -- no sketch measures what is to be equal, but the sums agree
      CASE WHEN f.side = 1 AND f.equal AND f.finite AND f.other_sketch_id IS NULL AND abs(f.abs_sum / f.other_abs_sum - 1) < 0.01 THEN 'ROUNDING' END)
    UNION ALL
    -- sketches of both sides
    SELECT
      z.run, z.prompt, z.layer, z.tensor, k.name, CASE k.name WHEN 'SCALED' THEN 'decode' END,
      CASE k.name WHEN 'SCALED' THEN 'prefill' END, NULL, NULL, NULL, NULL,
      CASE k.name WHEN 'FEW_VALUES' THEN z.alike END, CASE k.name WHEN 'FEW_VALUES' THEN 32 END,
      CASE k.name WHEN 'SCALED' THEN z.factor END,
      CASE k.name WHEN 'ROUNDING' THEN sqrt(pow(z.factor - 1, 2) + z.apart * z.apart) ELSE z.apart END,
      z.pos_id, z.run_id, z.prompt_id, 0
    FROM (
      -- DISTINCT, as all rows are: else SQLite puts all of these sums where they are named
      SELECT DISTINCT
        f.*, g.norm_ratio AS norm_ratio, g.alike AS alike, g.xy / g.xx AS factor,
        sqrt(max(0, 1 - g.xy * g.xy / (g.xx * g.yy))) AS apart,
        (SELECT t.rel_l2 FROM run_tolerance t WHERE t.run_id = f.run_id AND t.tensor_id = f.tensor_id) AS tolerance
      FROM failing_row f
      CROSS JOIN sketch_pair g ON g.x_id = f.other_sketch_id AND g.y_id = f.sketch_id
      WHERE f.side = 1 AND f.finite) z
    CROSS JOIN finding k
    WHERE z.apart IS NOT NULL AND k.name IN (
      CASE WHEN z.n > 3 AND abs(z.factor - 1) > 4 * max(z.apart, 1e-7) AND z.apart <= z.tolerance THEN 'SCALED' END,  -- apart is known to some 1e-8
      CASE WHEN z.hash <> z.other_hash AND z.other_n > 2 AND abs(z.norm_ratio - 1) < 1e-9 AND (z.nz, z.min, z.max, z.mean, z.abs_sum)
        = (z.other_nz, z.other_min, z.other_max, z.other_mean, z.other_abs_sum) THEN 'PERMUTED' END,
      -- norms are equal by their nature after a rotation, and after a norm; or as equal as rounding lets them be
      CASE WHEN NOT z.equal AND z.turns AND abs(z.norm_ratio - 1) <= max(min(1e-5, z.apart / 1000),
        CASE WHEN z.apart > 4 * z.tolerance THEN min(z.tolerance, z.apart / 10) ELSE 0 END) THEN 'TURNED' END,
      CASE WHEN z.n >= 128 AND z.alike BETWEEN 4 AND 31 THEN 'FEW_VALUES' END,
      CASE WHEN z.equal THEN 'ROUNDING' END,  -- where bits are to be equal
      CASE WHEN NOT z.equal AND z.n >= 32 AND z.apart <= 0.01 AND abs(z.factor - 1) <= z.apart THEN 'FEWER_BITS' END,
      CASE WHEN z.n >= 32 AND z.apart > 0.5 AND z.alike < 4 THEN 'UNRELATED' END)
    UNION ALL
    -- value by value, of a live probe that had both rows
    SELECT
      h.run, h.prompt, h.layer, h.tensor, 'SOME_HEADS', NULL, NULL, NULL, NULL, NULL, NULL,
      h.differing * h.heads / h.segments, h.heads, NULL, NULL, h.pos_id, h.run_id, h.prompt_id, 0
    FROM (
      SELECT f.*, v.heads AS heads, v.segments AS segments,
        (SELECT count(*) FROM difference_part p WHERE p.difference_id = v.id AND p.share_ppm > 1) AS differing
      FROM failing_row f
      CROSS JOIN difference v ON v.run_id = f.run_id AND v.prompt_id = f.prompt_id AND v.pos_id = f.pos_id
        AND v.layer = f.layer AND v.tensor_id = f.tensor_id AND v.prefill_hash = f.other_hash AND v.decode_hash = f.hash
      WHERE f.side = 1 AND v.heads > 1 AND v.rel_l2 IS NOT NULL) h
    WHERE h.differing BETWEEN 1 AND h.segments - 1
    UNION ALL
    -- head b of decode's sample is head a of prefill's
    SELECT
      s.run, s.prompt, s.layer, s.tensor, 'OTHER_HEAD', 'decode', 'prefill', NULL, 'head', b.h, a.h, NULL, NULL, NULL, NULL,
      s.pos_id, s.run_id, s.prompt_id, b.h * 256 + a.h
    FROM (
      SELECT f.*, min(length(f.sample), length(f.other_sample)) AS bytes, 4 * f.n / CAST(c.value AS INTEGER) AS width
      FROM failing_row f
      CROSS JOIN attribute c ON c.run_id = f.run_id AND c.dim = CASE
          WHEN f.point IN ('q_pre_rope', 'q_post_rope', 'attn_out') THEN 'n_heads'
          WHEN f.point IN ('k_pre_rope', 'k_post_rope', 'k_cache', 'v_proj', 'v_cache') THEN 'n_kv_heads' END
      WHERE f.side = 1 AND f.hash IS NOT f.other_hash AND f.n = f.other_n
        AND CAST(c.value AS INTEGER) BETWEEN 2 AND 256 AND f.n % CAST(c.value AS INTEGER) = 0) s
    CROSS JOIN head b ON (b.h + 1) * s.width <= s.bytes
    CROSS JOIN head a ON a.h <> b.h AND (a.h + 1) * s.width <= s.bytes
    WHERE substr(s.sample, 1 + s.width * b.h, s.width) = substr(s.other_sample, 1 + s.width * a.h, s.width)
      AND substr(s.sample, 1 + s.width * b.h, s.width) <> substr(s.other_sample, 1 + s.width * b.h, s.width)
    UNION ALL
    SELECT * FROM finding_elsewhere) c
) d
JOIN finding k ON k.name = d.finding
WHERE d.nth = 1;
