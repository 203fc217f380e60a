-- Two rows of one value, next to each other, and what their hashes, samples, sketches and statistics say. A run
-- compared with itself is prefill (x) against decode (y); two runs are compared phase by phase. One row per row x that
-- stands for its side (of two runs: for its phase); y is NULL where it has no partner; a row of decode is x only where
-- prefill has none. Of a run without rows, x is NULL: lines of reports stand in. A filter on the run, the prompt, the
-- position or the tensor reaches the key of trace_row. A subquery is evaluated only where its column is asked for.
CREATE VIEW comparison AS
SELECT
  a.id AS run_id, b.id AS other_run_id, a.id = b.id AS same_run, a.name AS run,
  -- of the row x, NULL for a report's: filter on these
  x.prompt_id AS key_prompt_id, x.side AS side, x.pos_id AS key_pos_id, x.layer AS key_layer,
  x.tensor_id AS key_tensor_id, x.phase_id AS phase_id,
  -- of the prompt of x, in the other run
  CASE WHEN a.id = b.id THEN x.prompt_id ELSE (
    SELECT o.id FROM prompt o WHERE o.run_id = b.id AND o.name = (SELECT q.name FROM prompt q WHERE q.id = x.prompt_id)) END AS other_prompt_id,
  -- by which prompts of the run are put in order where all else is equal: as its engine had them, but by name where
  -- files told of them, which come in any order
  CASE WHEN a.status <> 'unknown' AND NOT EXISTS (SELECT 1 FROM run_event e WHERE e.run_id = a.id) THEN x.prompt_id
    ELSE (SELECT q.name FROM prompt q WHERE q.id = x.prompt_id) END AS prompt_place,
  coalesce(x.prompt_id, p.prompt_id) AS prompt_id, coalesce(x.pos_id, p.pos_id) AS pos_id,
  coalesce(x.layer, p.layer) AS layer, coalesce(x.token_id, p.token_id) AS token_id,
  x.logical_tok_idx AS logical_tok_idx, coalesce(x.name_id, p.name_id) AS name_id,
  coalesce(x.tensor_id, (SELECT n.tensor_id FROM tensor_name n WHERE n.id = p.name_id)) AS tensor_id,
  (SELECT t.stage FROM tensor t WHERE t.id = coalesce(x.tensor_id, (SELECT n.tensor_id FROM tensor_name n WHERE n.id = p.name_id))) AS stage,
  x.hash AS x_hash, y.hash AS y_hash, x.n AS x_n, x.nan AS x_nan, x.inf AS x_inf, y.nan AS y_nan, y.inf AS y_inf,
  CASE x.side WHEN 0 THEN x.hash ELSE y.hash END AS prefill_hash, CASE x.side WHEN 0 THEN y.hash ELSE x.hash END AS decode_hash,
  y.run_id IS NULL AS alone, x.n >= 16 AS steady,  -- few values may cancel to next to nothing, which any rounding is much of
  -- 1: prefill traced the last position of its prompt here, so that rows of decode must have a partner
  (SELECT d.demands FROM traced_position d
   WHERE d.run_id = x.run_id AND d.prompt_id = x.prompt_id AND d.side = 0 AND d.pos_id = x.pos_id) AS demanded,
  CASE WHEN a.id = b.id THEN x.ambiguous OR y.ambiguous ELSE x.ambiguous_in_phase OR y.ambiguous_in_phase END AS ambiguous,
  x.nan > 0 OR x.inf > 0 OR x.flags & 1 OR y.nan > 0 OR y.inf > 0 OR y.flags & 1 AS nonfinite,
  x.token_id IS NOT y.token_id AS other_token, CASE WHEN x.flags & 8 OR y.flags & 8 THEN 1 ELSE 0 END AS claimed,  -- 1: only a document states one of them
  x.flags & ifnull(y.flags, 32) & 32 AS whole_tensor,
  -- 1: a match that nothing else can unsettle: equal hashes and statistics of finite rows, and no samples
  CASE WHEN x.hash = y.hash AND x.n = y.n AND x.n > 0 AND x.flags = y.flags AND a.hash_algo = b.hash_algo THEN
    (x.flags & 1) = 0 AND a.hash_algo <> 'torch-xor' AND x.sample_id IS NULL AND NOT (x.nan > 0 OR x.inf > 0) IS TRUE
    AND (x.min, x.max, x.nan, x.inf, x.nz_count, x.token_id) IS (y.min, y.max, y.nan, y.inf, y.nz_count, y.token_id)
    AND CASE WHEN a.id = b.id THEN x.ambiguous + y.ambiguous ELSE x.ambiguous_in_phase + y.ambiguous_in_phase END = 0
  ELSE 0 END AS settled,
  -- 1 equal, 0 different, NULL where hashes do not compare: of one algorithm, over as many values
  CASE WHEN x.n > 0 AND y.n = x.n AND (a.hash_algo = b.hash_algo) = ((x.flags & 16) = (y.flags & 16))
    THEN x.hash = y.hash END AS hash_equal,
  -- 1: the hashes are equal, of one algorithm, and nothing says that the rows are of other lengths
  x.hash = y.hash AND (x.n <> y.n) IS NOT 1 AND (a.hash_algo = b.hash_algo) = ((x.flags & 16) = (y.flags & 16)) AS same_hash,
  x.hash <> y.hash AND (a.hash_algo = b.hash_algo) = ((x.flags & 16) = (y.flags & 16)) AS other_hash, (a.hash_algo <> 'fnv-256') <> ((x.flags & 16) <> 0) AS whole_hash,  -- 1: of all values, not of the first 256
  a.hash_algo = 'torch-xor' AS order_free,  -- equal hashes say nothing of the order of the values
  -- two lengths; one made from a sample says nothing of the row's
  x.n IS NOT y.n AND ((x.flags | y.flags) & 2) = 0 AS other_length,
  -- statistics differ by more than four printed digits or decimals explain; sums do where hashes of all values leave
  -- something open, and by more than the order of adding and the arithmetic explain
  x.nz_count <> y.nz_count
    OR abs(x.min - y.min) > max(5.1e-4 * max(abs(x.min), abs(y.min)), 5.1e-5)
    OR abs(x.max - y.max) > max(5.1e-4 * max(abs(x.max), abs(y.max)), 5.1e-5)
    OR ((x.hash = y.hash) IS NOT 1 OR (a.hash_algo <> 'fnv-256') = ((x.flags & 16) <> 0)) AND abs(x.abs_sum - y.abs_sum) > 0.01 * max(x.abs_sum, y.abs_sum) AS other_statistics,
  -- 1 equal, 0 different, NULL when a sample is missing or the shorter one is how the longer one begins
  CASE WHEN x.sample_id IS NOT NULL AND y.sample_id IS NOT NULL THEN (
    SELECT v.n = u.n AND u.data = v.data FROM sample u CROSS JOIN sample v
    WHERE u.id = x.sample_id AND v.id = y.sample_id AND +v.n > 0
      AND (v.n = u.n OR substr(u.data, 1, 4 * v.n) <> substr(v.data, 1, 4 * u.n))) END AS sample_equal,
  -- values that both have
  CASE WHEN x.sample_id IS NOT NULL AND y.sample_id IS NOT NULL THEN (
    SELECT min(u.n, v.n) FROM sample u CROSS JOIN sample v
    WHERE u.id = x.sample_id AND v.id = y.sample_id AND +v.n > 0) END AS sample_n,
  -- greatest distance of two values of the samples that four printed digits do not explain; slow, ask where it matters
  (SELECT max(g.distance) FROM (
     SELECT abs(sum(f.value * f.sign)) AS distance FROM (
       -- of the bits of f32 (of infinity and NaN, what their exponent says)
       SELECT b.i, b.sign, (1 - 2 * (b.bits >> 31)) * CASE WHEN b.bits & 0x7f800000 THEN (b.bits & 0x7fffff) + 0x800000 ELSE 2 * (b.bits & 0x7fffff) END
         * pow(2, ((b.bits >> 23) & 255) - 150) AS value
       FROM (
         SELECT h.i, h.sign, sum((instr('123456789ABCDEF', substr(h.digits, 2 * c.column1 + 2, 1)) + 16 * instr('123456789ABCDEF', substr(h.digits, 2 * c.column1 + 1, 1))) << (8 * c.column1)) AS bits
         FROM (SELECT e.key AS i, iif(u.id = x.sample_id, 1, -1) AS sign, hex(substr(u.data, 4 * e.key + 1, 4)) AS digits
           FROM sample u CROSS JOIN json_each('[' || substr(replace(hex(zeroblob(u.n)), '00', ',0'), 2) || ']') e WHERE u.id IN (x.sample_id, y.sample_id)) h
         CROSS JOIN (VALUES (0), (1), (2), (3)) c GROUP BY h.i, h.sign) b) f
     GROUP BY f.i HAVING count(*) = 2 AND abs(sum(f.value * f.sign)) > 5.1e-4 * max(abs(f.value))) g) AS sample_distance,
  sqrt(l.sum_sq) AS norm, l.n AS sketch_n,  -- NULL unless both have one of the same length and origin, and hashes leave something open
  l.derived AS sketch_derived,  -- 1: sketches of samples, not of rows
  l.n = x.n AND l.n = y.n AS sketch_whole,  -- 1: of all values
  -- ||x-y|| over the larger norm, so that a row of zeros is at 1 from any other; 0 only where all of both sketches is
  -- equal. It is the mean of what the two maps say, in integers of the lesser scale, but no less than the norms differ.
  CASE WHEN k.id = l.id OR k.sum_sq = 0 AND l.sum_sq = 0 THEN 0.0 ELSE max(
    min(k.scale, l.scale) * sqrt(0.5 * max(0,
      k.sum_bb * CAST(max(1, k.scale / l.scale) AS INTEGER) * CAST(max(1, k.scale / l.scale) AS INTEGER)
      + l.sum_bb * CAST(max(1, l.scale / k.scale) AS INTEGER) * CAST(max(1, l.scale / k.scale) AS INTEGER)
      - 2 * CAST(max(k.scale / l.scale, l.scale / k.scale) AS INTEGER) * (
          k.b0 * l.b0 + k.b1 * l.b1 + k.b2 * l.b2 + k.b3 * l.b3 + k.b4 * l.b4 + k.b5 * l.b5 + k.b6 * l.b6 + k.b7 * l.b7
          + k.b8 * l.b8 + k.b9 * l.b9 + k.b10 * l.b10 + k.b11 * l.b11 + k.b12 * l.b12 + k.b13 * l.b13 + k.b14 * l.b14 + k.b15 * l.b15
          + k.b16 * l.b16 + k.b17 * l.b17 + k.b18 * l.b18 + k.b19 * l.b19 + k.b20 * l.b20 + k.b21 * l.b21 + k.b22 * l.b22 + k.b23 * l.b23
          + k.b24 * l.b24 + k.b25 * l.b25 + k.b26 * l.b26 + k.b27 * l.b27 + k.b28 * l.b28 + k.b29 * l.b29 + k.b30 * l.b30 + k.b31 * l.b31))),
    abs(k.sum_sq - l.sum_sq) / (sqrt(k.sum_sq) + sqrt(l.sum_sq))) / sqrt(max(k.sum_sq, l.sum_sq)) END AS sketch_distance,
  -- the same value by value, where who wrote the rows had both
  d.id AS difference_id, d.rel_l2 AS exact_rel_l2, d.differing AS differing, d.max_abs AS max_abs,
  d.max_abs_at AS max_abs_at, d.max_ulp AS max_ulp,
  p.source_id AS report_source_id, p.line AS report_line, p.status AS report_status,
  p.cause AS report_cause, p.root_cause AS report_root_cause, p.details AS report_details
FROM run a
CROSS JOIN run b
-- a row that no partner is looked for is here all the same when it is not finite
LEFT JOIN trace_row x ON x.run_id = +a.id
  AND CASE WHEN a.id <> b.id THEN x.stands_in_phase WHEN x.side IN (0, 1) AND x.pos_id >= 0 THEN x.stands
    ELSE x.nan > 0 OR x.inf > 0 OR x.flags & 1 END
LEFT JOIN report_pair p ON p.run_id = CASE WHEN x.run_id IS NULL AND a.id = b.id THEN a.id END
LEFT JOIN trace_row y ON y.run_id = b.id
  AND y.prompt_id = CASE WHEN a.id = b.id THEN x.prompt_id ELSE (
    SELECT o.id FROM prompt o WHERE o.run_id = b.id AND o.name = (SELECT q.name FROM prompt q WHERE q.id = x.prompt_id)) END
  AND y.side = CASE WHEN a.id = b.id THEN 1 - x.side ELSE x.side END
  AND y.pos_id = x.pos_id AND y.layer = x.layer AND y.tensor_id = x.tensor_id
  AND CASE WHEN a.id = b.id THEN y.stands AND x.pos_id >= 0 AND y.token_id IS x.token_id AND y.logical_tok_idx IS x.logical_tok_idx
    ELSE y.stands_in_phase AND y.phase_id = x.phase_id AND (x.pos_id >= 0 OR y.step = x.step) END
LEFT JOIN difference d ON d.run_id = CASE WHEN a.id = b.id AND x.hash <> y.hash THEN x.run_id END AND d.n = x.n
  AND d.prompt_id = x.prompt_id AND d.pos_id = x.pos_id AND d.layer = x.layer AND d.tensor_id = x.tensor_id
  AND d.prefill_hash = x.hash AND d.decode_hash = y.hash
LEFT JOIN sketch k ON k.id = CASE WHEN x.hash = y.hash AND x.n = y.n AND x.sample_id IS NULL THEN NULL ELSE x.sketch_id END
LEFT JOIN sketch l ON l.id = CASE WHEN k.id IS NOT NULL THEN y.sketch_id END AND l.n = k.n AND k.n > 0 AND l.derived = k.derived
WHERE CASE
    WHEN a.id = b.id THEN x.run_id IS NULL OR x.side = 0 OR y.run_id IS NULL
    -- a run whose prompt was traced beyond its plan has rows that no other run owes
    WHEN y.run_id IS NULL AND NOT (x.nan > 0 OR x.inf > 0) IS TRUE THEN
      (SELECT count(*) = 0 OR max(n.side = x.side AND n.layer = x.layer AND n.tensor_id = x.tensor_id)
       FROM plan n WHERE n.run_id = x.run_id AND n.prompt_id = x.prompt_id) ELSE 1 END;
