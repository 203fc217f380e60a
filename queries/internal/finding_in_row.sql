-- Findings that the two rows of a failing pair tell by themselves: by their statistics, their sketches, and by where
-- they differ value by value. Columns as in diagnosis; `rank`: of several rows of one finding the least counts. What
-- fills a part of the row is said of that part, and nothing of the row. Filter on the run.
CREATE VIEW finding_in_row AS
-- statistics of one side
SELECT
  f.run AS run, f.prompt AS prompt, f.layer AS layer, f.tensor AS tensor, k.name AS finding,
  CASE WHEN k.name IN ('ROUNDING', 'TAIL') OR k.name = 'ALL_NAN' AND f.other_n > 0 AND f.other_nan = f.other_n THEN NULL
    ELSE f.side_name END AS side,
  CASE k.name WHEN 'FEWER_VALUES' THEN f.other_side_name END AS other_side,
  NULL AS other_tensor, NULL AS unit,
  CASE k.name WHEN 'TAIL' THEN min(length(f.sample), length(f.other_sample)) / 4 END AS at, CASE k.name WHEN 'TAIL' THEN f.n - 1 END AS other_at,
  CASE k.name WHEN 'SOME_NAN' THEN f.nan + f.inf WHEN 'FEWER_VALUES' THEN f.other_nz - f.nz
    WHEN 'NOT_ONE' THEN f.n / (f.pos_id + 1)
    WHEN 'TAIL' THEN f.n - min(length(f.sample), length(f.other_sample)) / 4 END AS count,
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
  -- a norm of heads without its weights
  CASE WHEN NOT f.equal AND f.finite AND f.n >= 16 AND (SELECT abs(e.sum_sq / e.n - 1) FROM sketch e WHERE e.id = f.sketch_id) < 1e-3
    AND (SELECT abs(e.sum_sq / e.n - 1) FROM sketch e WHERE e.id = f.other_sketch_id) > 0.01 THEN 'MISSING_WEIGHT' END,
  -- no sketch measures what is to be equal, but the sums agree
  CASE WHEN f.side = 1 AND f.equal AND f.finite AND f.other_sketch_id IS NULL AND abs(f.abs_sum / f.other_abs_sum - 1) < 0.01 THEN 'ROUNDING' END)
UNION ALL
-- both sides
SELECT
  z.run, z.prompt, z.layer, z.tensor, k.name, CASE k.name WHEN 'SCALED' THEN 'decode' END,
  CASE k.name WHEN 'SCALED' THEN 'prefill' END, NULL, NULL,
  CASE WHEN k.name IN ('TAIL', 'SOME_VALUES') THEN z.from_at END, CASE WHEN k.name IN ('TAIL', 'SOME_VALUES') THEN z.to_at END,
  CASE k.name WHEN 'FEW_VALUES' THEN CASE WHEN z.differing * 8 <= z.n THEN z.differing END
    WHEN 'SOME_HEADS' THEN z.parts * z.heads / z.segments WHEN 'TAIL' THEN z.to_at - z.from_at + 1 END,
  CASE WHEN k.name = 'SOME_HEADS' THEN z.heads WHEN k.name IN ('FEW_VALUES', 'TAIL', 'SOME_VALUES') THEN z.n END,
  CASE k.name WHEN 'SCALED' THEN z.factor END,
  CASE k.name WHEN 'ROUNDING' THEN sqrt(pow(z.factor - 1, 2) + z.apart * z.apart)
    WHEN 'OTHER_VALUES' THEN max(z.apart, abs(z.factor - 1)) ELSE z.apart END,
  z.pos_id, z.run_id, z.prompt_id, 0
FROM (
  SELECT
    c.*,
    CASE WHEN c.exact THEN c.first_at ELSE (c.first_part * c.n + c.segments - 1) / c.segments END AS from_at,
    CASE WHEN c.exact THEN c.last_at ELSE ((c.last_part + 1) * c.n + c.segments - 1) / c.segments - 1 END AS to_at,
    CASE
      WHEN c.equal THEN NULL
      WHEN c.differing IS NULL THEN CASE WHEN c.n >= 128 AND c.alike BETWEEN 4 AND 31 THEN 'FEW_VALUES' END
      -- whole heads, unless all of them
      WHEN c.heads > 1 AND c.parts < c.segments AND c.differing * 10 > 9 * c.parts * c.n / c.segments
        AND (c.exact OR iif(c.turned, c.clean_ppm = 100000, c.peak <= min(0.6, 20.0 * c.segments / c.n / c.parts))) THEN 'SOME_HEADS'
      WHEN c.turned THEN NULL
      WHEN c.exact AND c.differing * 2 > c.last_at - c.first_at + 1 AND c.differing > 1 AND 2 * (c.last_at - c.first_at + 1) <= c.n THEN
        CASE WHEN c.last_at = c.n - 1 THEN 'TAIL' WHEN c.differing > 2 THEN 'SOME_VALUES' ELSE 'FEW_VALUES' END
      WHEN c.exact AND (c.differing * 8 <= c.n OR c.differing = 1) THEN 'FEW_VALUES'
      WHEN c.n < 64 OR c.parts * 2 > c.segments AND (c.heads = 0 OR c.parts = c.segments) THEN NULL
      -- one value has more of the distance than a value of as many usual ones
      WHEN c.heads > 0 OR c.parts = 1 AND c.peak > 0.6 THEN 'FEW_VALUES'
      WHEN c.last_part - c.first_part = c.parts - 1 THEN iif(c.last_part = c.segments - 1, 'TAIL', 'SOME_VALUES')
      ELSE iif(c.peak * c.parts > 0.9, 'FEW_VALUES', 'SOME_VALUES')
    END AS part
  FROM (
    SELECT
      b.*,
      -- norms are equal by their nature after a rotation, and after a norm; or as equal as rounding lets them be
      NOT b.equal AND b.turns AND abs(b.norm_ratio - 1) <= max(min(1e-5, b.apart / 1000),
        CASE WHEN b.apart > 4 * b.tolerance THEN min(b.tolerance, b.apart / 10) ELSE 0 END) AS turned
    FROM (
    -- DISTINCT, as all rows are: else SQLite puts all of these sums where they are named
    SELECT DISTINCT
      f.*, g.norm_ratio AS norm_ratio, g.alike AS alike, g.xy / g.xx AS factor,
      sqrt(max(0, 1 - g.xy * g.xy / (g.xx * g.yy))) AS apart,
      f.strict AND f.differing < f.n AS exact,
      -- segments with more than their part of the tolerance; a difference without any is spread over all
      (SELECT iif(count(*) = 0, f.segments, sum(p.share_ppm > f.clean_ppm)) FROM difference_part p WHERE p.difference_id = f.difference_id) AS parts,
      (SELECT min(p.segment) FROM difference_part p WHERE p.difference_id = f.difference_id AND p.share_ppm > f.clean_ppm) AS first_part,
      (SELECT max(p.segment) FROM difference_part p WHERE p.difference_id = f.difference_id AND p.share_ppm > f.clean_ppm) AS last_part,
      f.max_abs * f.max_abs / (f.rel_l2 * f.rel_l2 * g.sum_sq) AS peak  -- part of the squared distance that one value has
    FROM failing_row f
    CROSS JOIN sketch_pair g ON g.x_id = f.other_sketch_id AND g.y_id = f.sketch_id
    WHERE f.side = 1 AND f.finite) b) c) z
CROSS JOIN finding k
WHERE k.name = z.part OR k.name IN (
  CASE WHEN z.hash <> z.other_hash AND z.other_n > 2 AND z.part IS NOT 'FEW_VALUES' AND (
      abs(z.norm_ratio - 1) < 1e-9 AND (z.nz, z.min, z.max, z.mean, z.abs_sum) = (z.other_nz, z.other_min, z.other_max, z.other_mean, z.other_abs_sum)
      -- or as nearly so as rounding lets them be
      OR z.n >= 32 AND NOT z.turns AND z.apart > 30 * z.tolerance AND max(abs(z.norm_ratio - 1), abs(z.abs_sum / z.other_abs_sum - 1),
        abs(z.mean - z.other_mean) / (z.abs_sum / z.n), abs(z.max - z.other_max) / (z.max - z.min),
        abs(z.min - z.other_min) / (z.max - z.min)) <= z.tolerance) THEN 'PERMUTED' END,
  CASE
    WHEN z.part IS NOT NULL OR z.apart IS NULL THEN NULL
    WHEN z.n > 3 AND abs(z.factor - 1) > 4 * max(z.apart, 1e-7) AND z.apart <= z.tolerance THEN 'SCALED'  -- apart is known to some 1e-8
    WHEN z.equal THEN 'ROUNDING'
    WHEN z.turned THEN 'TURNED'
    WHEN z.n >= 32 AND z.apart <= 0.01 AND abs(z.factor - 1) <= z.apart THEN 'FEWER_BITS'
    WHEN z.n >= 32 AND z.apart > 0.5 THEN 'UNRELATED'
    WHEN z.n >= 16 THEN 'OTHER_VALUES'  -- fewer may cancel to next to nothing
  END);
