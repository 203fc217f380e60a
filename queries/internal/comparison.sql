-- Two sides of one value, held against each other. On axis 'phases' a run is compared with itself:
-- prefill with decode (filter on other_run_id = run_id), and a row that can have no partner is there
-- when it is not finite. On axis 'runs' it is compared with another
-- one, phase by phase. One row per row x of run_id that stands for its side and its partner y; y is
-- NULL where there is none, and x where the run has no such rows: then a report's table stands in
-- (report_*), if there is one. Of several rows of one side the first by phase, step, name and nth
-- stands, and `ambiguous` says whether they differ.
-- A plain join on purpose: a filter on the run, the prompt, the position or the tensor, or a join
-- with either, reaches the key of trace_row.
CREATE VIEW comparison AS
SELECT
  z.name AS axis, z.same_run AS same_run,
  a.id AS run_id, a.name AS run, a.experiment AS experiment, a.mode AS mode,
  a.commit_sha AS commit_sha, a.date AS date,
  b.id AS other_run_id, b.name AS other_run,
  -- 1: x's hash covers all values, not the first 256
  (a.hash_algo <> 'fnv-256') <> ((x.flags & 16) <> 0) AS whole_hash,
  a.hash_algo = 'torch-xor' AS order_free,  -- equal hashes say nothing of the order of the values
  (x.flags & 32) <> 0 AS whole_tensor,
  a.dtype AS dtype, b.dtype AS other_dtype,
  -- of the row x, NULL for a report's: filter on these
  x.prompt_id AS key_prompt_id, x.pos_id AS key_pos_id, x.layer AS key_layer,
  x.tensor_id AS key_tensor_id, x.side AS side, x.phase_id AS phase_id,
  coalesce(x.prompt_id, p.prompt_id) AS prompt_id, coalesce(x.pos_id, p.pos_id) AS pos_id,
  coalesce(x.layer, p.layer) AS layer, n.id AS name_id,
  n.tensor_id AS tensor_id, t.stage AS stage, t.switch_on AS switch_on,
  coalesce(x.token_id, p.token_id) AS token_id, x.logical_tok_idx AS logical_tok_idx,
  x.hash AS x_hash, x.n AS x_n, x.nan AS x_nan, x.inf AS x_inf, x.vector_id AS x_vector,
  x.n >= 16 AS steady,  -- few values may cancel to next to nothing, which any rounding is much of
  y.hash AS y_hash, y.n AS y_n, y.nan AS y_nan, y.inf AS y_inf, y.vector_id AS y_vector,
  -- the last block that x's side traced here: what feeds the tensors after the stack
  (SELECT e.layer FROM trace_row e
   WHERE e.run_id = x.run_id AND e.prompt_id = x.prompt_id AND e.side = x.side AND e.pos_id = x.pos_id
     AND (SELECT t.stage FROM tensor t WHERE t.id = e.tensor_id) = 'layer'
   ORDER BY e.layer DESC LIMIT 1) AS last_layer,
  CASE x.side WHEN 0 THEN x.hash ELSE y.hash END AS prefill_hash,
  CASE x.side WHEN 0 THEN y.hash ELSE x.hash END AS decode_hash,
  y.run_id IS NULL AS alone,
  -- 1: prefill traced the last position of its prompt here
  (SELECT d.demands FROM traced_position d
   WHERE d.run_id = x.run_id AND d.prompt_id = x.prompt_id AND d.side = 0 AND d.pos_id = x.pos_id) AS demanded,
  x.token_id IS NOT y.token_id AS other_token,
  w.yes AS nonfinite,
  -- 1: a document states one of the rows; nothing else wrote it
  CASE WHEN x.flags & 8 OR y.flags & 8 THEN 1 ELSE 0 END AS claimed,
  h.yes AS by_hash,
  -- 1: what is equal covers all values, of rows that differ in what these values amount to, as far as
  -- their digits and the order of a sum let one tell; or of rows of other lengths. What is equal: the
  -- hashes, or, where no hashes compare, the sketches, if they are (sketch_equal)
  CASE WHEN x.hash = y.hash OR l.id IS NOT NULL AND ((x.hash = y.hash) IS NULL
      OR (a.hash_algo = b.hash_algo) <> ((x.flags & 16) = (y.flags & 16))) THEN
    CASE
      -- a sum of squares is of these values, too
      WHEN x.hash = y.hash AND l.sum_sq <> k.sum_sq AND l.derived = 0 AND l.n = x.n AND x.n = y.n
        AND a.hash_algo = b.hash_algo AND (x.flags & 16) = (y.flags & 16)
        AND (a.hash_algo <> 'fnv-256') <> ((x.flags & 16) <> 0)
        AND abs(k.sum_sq - l.sum_sq) > 1e-5 * max(k.sum_sq, l.sum_sq) THEN 1
      WHEN g.yes THEN 0
      WHEN x.hash = y.hash AND (a.hash_algo = b.hash_algo) <> ((x.flags & 16) = (y.flags & 16)) THEN NULL
      WHEN x.hash = y.hash AND x.n <> y.n THEN
        (a.hash_algo <> 'fnv-256') <> ((x.flags & 16) <> 0) OR x.n < 256 OR y.n < 256
      WHEN CASE WHEN x.hash = y.hash THEN (a.hash_algo <> 'fnv-256') <> ((x.flags & 16) <> 0) OR x.n <= 256
          ELSE x.n = l.n AND y.n = l.n END THEN
        (x.nz_count <> y.nz_count) IS TRUE
        OR abs(x.min - y.min) > 1e-5 * max(abs(x.min), abs(y.min)) IS TRUE
        OR abs(x.max - y.max) > 1e-5 * max(abs(x.max), abs(y.max)) IS TRUE
        OR abs(x.abs_sum - y.abs_sum) > 1e-5 * max(abs(x.abs_sum), abs(y.abs_sum)) IS TRUE
        OR abs(x.mean - y.mean) > 1e-5 * coalesce(x.abs_sum / x.n, max(abs(x.mean), abs(y.mean))) IS TRUE
    END
  END AS contradicted,
  -- How far apart the rows are at least, over the larger norm, as what each says of its values proves: an
  -- extreme that the other row has nothing near to, means or sums that are not the same. As far as digits
  -- tell; 0 where they tell nothing. A hash that does not cover all that n counts has a sum of others, maybe.
  CASE WHEN g.yes THEN 0.0 WHEN x.n > 0 AND y.n = x.n THEN
    ifnull(max(0.0,
        ifnull(max(abs(x.max - y.max), abs(x.min - y.min)) - 1e-5 * max(abs(x.min), abs(x.max), abs(y.min), abs(y.max)), 0.0),
        ifnull((abs(x.mean - y.mean) - 1e-5 * max(x.abs_sum, y.abs_sum) / x.n) * sqrt(x.n), 0.0),
        CASE WHEN (a.hash_algo <> 'fnv-256') <> ((x.flags & 16) <> 0) THEN
          ifnull((abs(x.abs_sum - y.abs_sum) - 1e-5 * max(x.abs_sum, y.abs_sum)) / sqrt(x.n), 0.0) ELSE 0.0 END)
      -- no row is longer than that
      / sqrt(max(abs(x.min), abs(x.max), abs(y.min), abs(y.max)) * coalesce(max(x.abs_sum, y.abs_sum),
          CASE WHEN (a.hash_algo <> 'fnv-256') <> ((x.flags & 16) <> 0) THEN
            x.n * max(abs(x.min), abs(x.max), abs(y.min), abs(y.max)) END)), 0.0)
    ELSE 0.0 END AS least_distance,
  -- 1: they do not say the same about how long the row is; a length made from a sample says nothing of it
  x.n IS NOT y.n AND ((x.flags | y.flags) & 2) = 0 AS other_length,
  -- 1: tensors that differ in what their values amount to, as far as the order of a sum lets one tell
  CASE WHEN x.flags & y.flags & 32 THEN
    abs(x.min - y.min) > 1e-5 * max(abs(x.min), abs(y.min)) IS TRUE
    OR abs(x.max - y.max) > 1e-5 * max(abs(x.max), abs(y.max)) IS TRUE
    OR abs(x.abs_sum - y.abs_sum) > 1e-5 * max(abs(x.abs_sum), abs(y.abs_sum)) IS TRUE
    OR abs(x.mean - y.mean) > 1e-5 * coalesce(max(abs(x.min), abs(x.max), abs(y.min), abs(y.max)),
        x.abs_sum / x.n, max(abs(x.mean), abs(y.mean))) IS TRUE
  ELSE 0 END AS other_statistics,
  x.hash <> y.hash AND (a.hash_algo = b.hash_algo) = ((x.flags & 16) = (y.flags & 16)) AS other_hash,
  -- 1 equal, 0 different, NULL when a sample is missing or the shorter one is how the longer one begins
  CASE WHEN v.id IS NOT NULL THEN v.n = u.n AND u.data = v.data END AS sample_equal,
  min(u.n, v.n) AS sample_n,  -- values that both have; NULL where sample_equal is
  l.n AS sketch_n,  -- NULL unless both have one of the same length and origin
  l.derived AS sketch_derived,
  CASE WHEN l.id IS NOT NULL THEN
    (k.sum_sq, k.s0, k.s1, k.s2, k.s3, k.s4, k.s5, k.s6, k.s7, k.s8, k.s9, k.s10, k.s11,
     k.s12, k.s13, k.s14, k.s15, k.s16, k.s17, k.s18, k.s19, k.s20, k.s21, k.s22, k.s23,
     k.s24, k.s25, k.s26, k.s27, k.s28, k.s29, k.s30, k.s31)
    = (l.sum_sq, l.s0, l.s1, l.s2, l.s3, l.s4, l.s5, l.s6, l.s7, l.s8, l.s9, l.s10, l.s11,
       l.s12, l.s13, l.s14, l.s15, l.s16, l.s17, l.s18, l.s19, l.s20, l.s21, l.s22, l.s23,
       l.s24, l.s25, l.s26, l.s27, l.s28, l.s29, l.s30, l.s31) END AS sketch_equal,
  -- Estimated ||x-y|| over the larger norm, so that a row of zeros against anything else is 1: the mean
  -- over the two maps of the squared distance between their buckets; no less than their norms differ.
  max(sqrt(0.5 * (
      (k.s0-l.s0)*(k.s0-l.s0) + (k.s1-l.s1)*(k.s1-l.s1) + (k.s2-l.s2)*(k.s2-l.s2) + (k.s3-l.s3)*(k.s3-l.s3)
    + (k.s4-l.s4)*(k.s4-l.s4) + (k.s5-l.s5)*(k.s5-l.s5) + (k.s6-l.s6)*(k.s6-l.s6) + (k.s7-l.s7)*(k.s7-l.s7)
    + (k.s8-l.s8)*(k.s8-l.s8) + (k.s9-l.s9)*(k.s9-l.s9) + (k.s10-l.s10)*(k.s10-l.s10) + (k.s11-l.s11)*(k.s11-l.s11)
    + (k.s12-l.s12)*(k.s12-l.s12) + (k.s13-l.s13)*(k.s13-l.s13) + (k.s14-l.s14)*(k.s14-l.s14) + (k.s15-l.s15)*(k.s15-l.s15)
    + (k.s16-l.s16)*(k.s16-l.s16) + (k.s17-l.s17)*(k.s17-l.s17) + (k.s18-l.s18)*(k.s18-l.s18) + (k.s19-l.s19)*(k.s19-l.s19)
    + (k.s20-l.s20)*(k.s20-l.s20) + (k.s21-l.s21)*(k.s21-l.s21) + (k.s22-l.s22)*(k.s22-l.s22) + (k.s23-l.s23)*(k.s23-l.s23)
    + (k.s24-l.s24)*(k.s24-l.s24) + (k.s25-l.s25)*(k.s25-l.s25) + (k.s26-l.s26)*(k.s26-l.s26) + (k.s27-l.s27)*(k.s27-l.s27)
    + (k.s28-l.s28)*(k.s28-l.s28) + (k.s29-l.s29)*(k.s29-l.s29) + (k.s30-l.s30)*(k.s30-l.s30) + (k.s31-l.s31)*(k.s31-l.s31)
    ) / max(k.sum_sq, l.sum_sq)),
    abs(sqrt(k.sum_sq) - sqrt(l.sum_sq)) / sqrt(max(k.sum_sq, l.sum_sq))) AS sketch_distance,
  -- the same value by value, where who wrote the rows had both
  d.rel_l2 AS exact_distance,
  CASE WHEN x.crowded THEN EXISTS (
    SELECT 1 FROM trace_row e
    WHERE e.run_id = x.run_id AND e.prompt_id = x.prompt_id AND e.side = x.side
      AND e.pos_id = x.pos_id AND e.layer = x.layer AND e.tensor_id = x.tensor_id
      AND (e.phase_id, e.step, e.name_id, e.nth) > (x.phase_id, x.step, x.name_id, x.nth)
      AND CASE WHEN z.same_run THEN e.token_id IS x.token_id AND e.logical_tok_idx IS x.logical_tok_idx
          ELSE e.phase_id = x.phase_id AND (x.pos_id >= 0 OR e.step = x.step) END
      AND ((e.token_id, e.n, e.hash, e.min, e.max, e.mean, e.abs_sum, e.nan, e.inf, e.nz_count, e.flags & 17)
             IS NOT (x.token_id, x.n, x.hash, x.min, x.max, x.mean, x.abs_sum, x.nan, x.inf, x.nz_count, x.flags & 17)
           OR (SELECT data FROM sample WHERE id = e.vector_id)
             IS NOT (SELECT data FROM sample WHERE id = x.vector_id)
           -- without a hash the sketch is what a row is known by
           OR CASE WHEN x.hash IS NULL THEN
              (SELECT n, derived, sum_sq, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14,
                s15, s16, s17, s18, s19, s20, s21, s22, s23, s24, s25, s26, s27, s28, s29, s30, s31
               FROM sketch WHERE id = e.vector_id) IS NOT
              (SELECT n, derived, sum_sq, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14,
                s15, s16, s17, s18, s19, s20, s21, s22, s23, s24, s25, s26, s27, s28, s29, s30, s31
               FROM sketch WHERE id = x.vector_id) ELSE 0 END)
  ) ELSE 0 END OR CASE WHEN y.crowded THEN EXISTS (
    SELECT 1 FROM trace_row e
    WHERE e.run_id = y.run_id AND e.prompt_id = y.prompt_id AND e.side = y.side
      AND e.pos_id = y.pos_id AND e.layer = y.layer AND e.tensor_id = y.tensor_id
      AND (e.phase_id, e.step, e.name_id, e.nth) > (y.phase_id, y.step, y.name_id, y.nth)
      AND CASE WHEN z.same_run THEN e.token_id IS y.token_id AND e.logical_tok_idx IS y.logical_tok_idx
          ELSE e.phase_id = y.phase_id AND (y.pos_id >= 0 OR e.step = y.step) END
      AND ((e.token_id, e.n, e.hash, e.min, e.max, e.mean, e.abs_sum, e.nan, e.inf, e.nz_count, e.flags & 17)
             IS NOT (y.token_id, y.n, y.hash, y.min, y.max, y.mean, y.abs_sum, y.nan, y.inf, y.nz_count, y.flags & 17)
           OR (SELECT data FROM sample WHERE id = e.vector_id)
             IS NOT (SELECT data FROM sample WHERE id = y.vector_id)
           -- without a hash the sketch is what a row is known by
           OR CASE WHEN y.hash IS NULL THEN
              (SELECT n, derived, sum_sq, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14,
                s15, s16, s17, s18, s19, s20, s21, s22, s23, s24, s25, s26, s27, s28, s29, s30, s31
               FROM sketch WHERE id = e.vector_id) IS NOT
              (SELECT n, derived, sum_sq, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14,
                s15, s16, s17, s18, s19, s20, s21, s22, s23, s24, s25, s26, s27, s28, s29, s30, s31
               FROM sketch WHERE id = y.vector_id) ELSE 0 END)
  ) ELSE 0 END AS ambiguous,
  p.source_id AS report_source_id, p.line AS report_line, p.status AS report_status,
  p.cause AS report_cause, p.root_cause AS report_root_cause, p.details AS report_details
FROM axis z
CROSS JOIN run a
CROSS JOIN run b
LEFT JOIN trace_row x ON x.run_id = +a.id
  AND (NOT z.same_run OR x.side IN (0, 1) AND +x.pos_id >= 0 OR x.nan > 0 OR x.inf > 0 OR x.flags & 1)
  AND CASE WHEN x.crowded AND (NOT z.same_run OR x.side IN (0, 1) AND x.pos_id >= 0) THEN NOT EXISTS (
    SELECT 1 FROM trace_row e
    WHERE e.run_id = x.run_id AND e.prompt_id = x.prompt_id AND e.side = x.side
      AND e.pos_id = x.pos_id AND e.layer = x.layer AND e.tensor_id = x.tensor_id
      AND (e.phase_id, e.step, e.name_id, e.nth) < (x.phase_id, x.step, x.name_id, x.nth)
      AND CASE WHEN z.same_run THEN e.token_id IS x.token_id AND e.logical_tok_idx IS x.logical_tok_idx
          ELSE e.phase_id = x.phase_id AND (x.pos_id >= 0 OR e.step = x.step) END) ELSE 1 END
-- before y, for a filter on the layer spares its seek
LEFT JOIN report_pair p ON p.run_id = a.id AND p.source_id = CASE WHEN x.run_id IS NULL AND z.same_run THEN
    (SELECT e.report_source_id FROM run_evidence e WHERE e.run_id = a.id) END
LEFT JOIN trace_row y ON y.run_id = b.id
  AND y.prompt_id = CASE WHEN z.same_run THEN x.prompt_id ELSE
    (SELECT o.id FROM prompt o WHERE o.run_id = b.id
       AND o.name = (SELECT q.name FROM prompt q WHERE q.id = x.prompt_id)) END
  AND y.side = CASE WHEN z.same_run THEN 1 - x.side ELSE x.side END
  AND y.pos_id = x.pos_id AND y.layer = x.layer AND y.tensor_id = x.tensor_id
  AND CASE WHEN z.same_run THEN x.pos_id >= 0 AND y.token_id IS x.token_id AND y.logical_tok_idx IS x.logical_tok_idx
      ELSE y.phase_id = x.phase_id AND (x.pos_id >= 0 OR y.step = x.step) END
  AND CASE WHEN y.crowded THEN NOT EXISTS (
    SELECT 1 FROM trace_row e
    WHERE e.run_id = y.run_id AND e.prompt_id = y.prompt_id AND e.side = y.side
      AND e.pos_id = y.pos_id AND e.layer = y.layer AND e.tensor_id = y.tensor_id
      AND (e.phase_id, e.step, e.name_id, e.nth) < (y.phase_id, y.step, y.name_id, y.nth)
      AND CASE WHEN z.same_run THEN e.token_id IS y.token_id AND e.logical_tok_idx IS y.logical_tok_idx
          ELSE e.phase_id = y.phase_id AND (y.pos_id >= 0 OR e.step = y.step) END) ELSE 1 END
-- What many conditions ask is looked up in a table of all that it can be, so that it is worked out once.
LEFT JOIN truth g ON g.yes =
  ((x.n, x.min, x.max, x.mean, x.abs_sum, x.nz_count) IS (y.n, y.min, y.max, y.mean, y.abs_sum, y.nz_count))
LEFT JOIN truth h ON h.yes =
  CASE WHEN x.n > 0 AND y.n = x.n AND x.hash IS NOT NULL AND y.hash IS NOT NULL
    AND (a.hash_algo = b.hash_algo) = ((x.flags & 16) = (y.flags & 16)) THEN 1 ELSE 0 END
LEFT JOIN truth w ON w.yes =
  CASE WHEN x.nan > 0 OR x.inf > 0 OR x.flags & 1 OR y.nan > 0 OR y.inf > 0 OR y.flags & 1 THEN 1
    -- no row of its side stands for others that are not finite
    WHEN x.crowded THEN EXISTS (
      SELECT 1 FROM trace_row e
      WHERE e.run_id = x.run_id AND e.prompt_id = x.prompt_id AND e.side = x.side
        AND e.pos_id = x.pos_id AND e.layer = x.layer AND e.tensor_id = x.tensor_id
        AND e.token_id IS x.token_id AND e.logical_tok_idx IS x.logical_tok_idx
        AND (e.nan > 0 OR e.inf > 0 OR e.flags & 1))
    ELSE 0 END
LEFT JOIN tensor_name n ON n.id = ifnull(x.name_id, p.name_id)
LEFT JOIN tensor t ON t.id = n.tensor_id
LEFT JOIN sample u ON u.id = x.vector_id
LEFT JOIN sample v ON v.id = CASE WHEN u.id IS NOT NULL THEN y.vector_id END AND v.n > 0
  AND (v.n = u.n OR substr(u.data, 1, 4 * v.n) <> substr(v.data, 1, 4 * u.n))
LEFT JOIN sketch k ON k.id = x.vector_id
LEFT JOIN sketch l ON l.id = CASE WHEN k.id IS NOT NULL THEN y.vector_id END AND l.n = k.n AND l.n > 0
  AND l.derived = k.derived
LEFT JOIN difference d ON d.run_id = CASE WHEN z.same_run AND x.hash <> y.hash THEN y.run_id END
  AND d.prompt_id = y.prompt_id AND d.pos_id = y.pos_id AND d.layer = y.layer AND d.tensor_id = y.tensor_id
  AND d.prefill_hash = x.hash AND d.decode_hash = y.hash AND d.n = x.n
WHERE NOT z.same_run OR x.run_id IS NULL OR x.side = 0 OR y.run_id IS NULL;
