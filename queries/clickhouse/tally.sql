-- One row per push, prompt, status, class, scope and cause: what the comparisons of prefill and decode of the
-- pushes in `asked` amount to, which of them is the first in forward order; the rows of SQLite's view tally
-- that come from trace rows. `whole` has those whose run hashes whole rows (all but fnv-256), `names` the trace points.
-- Rows are grouped once, by their place and token; all else is arithmetic on what a group holds.
-- 18.16 works the types of a sub-query out once for every SELECT around it, and writes an alias out wherever it is
-- used: ARRAY JOIN of one value names what is used over and over, where a SELECT of its own would cost more.
SELECT
  push, prompt_id,
  tupleElement(c, 7) AS status, tupleElement(c, 8) AS class, tupleElement(c, 9) AS scope,
  multiIf(
    status = 'MISSING', 'TRACE_OFFSET',
    status = 'AMBIGUOUS', 'AMBIGUOUS_TRACE',
    status = 'CONFLICT', 'EVIDENCE_CONFLICT',
    status NOT IN ('DRIFT', 'NONFINITE'), '',
    -- the trace point that names another cause for it matched; of more than rounding, when that was rounding at most
    assumeNotNull(switch_on) <> 0 AND side < 2 AND grade > 0 AND arrayExists(
      g -> tupleElement(g, 1) = side AND tupleElement(g, 2) = assumeNotNull(switch_on) AND tupleElement(g, 3) <= (grade >= 3), grades), assumeNotNull(switch_cause),
    assumeNotNull(name_cause)) AS cause,
  toUInt64(sum(tupleElement(c, 14))) AS total, toUInt64(sum(tupleElement(c, 10))) AS pairs,
  toUInt64(sum(tupleElement(c, 11))) AS claims, toUInt8(max(tupleElement(c, 13))) AS anywhere,
  max(throwIf(isNull(stage))) AS unknown_names,  -- a name that nobody knows would go unseen
  -- forward_layer, ord, trace point, layer, name, position, side, nth, no token, token, trace point's id
  min((
    if(blamed, multiIf(
      assumeNotNull(stage) = 'head', 1000000,
      assumeNotNull(stage) = 'embed', if(layer > 0, toInt64(layer), 0),
      layer >= 0, toInt64(layer), 1000000), -1),
    if(blamed, assumeNotNull(ord), -1), if(blamed, assumeNotNull(tensor), ''), toInt64(layer),
    if(blamed, name_id, -1), toInt64(pos_id), side, tupleElement(c, 4), tupleElement(c, 5), tupleElement(c, 6),
    if(blamed, assumeNotNull(of_tensor_id), -1))) AS first
FROM (
  -- a layer at a position: its comparisons, and how those trace points came out that name the cause of others
  SELECT
    push, prompt_id, pos_id, layer,
    groupArray((
      tensor_id, toUInt8(if(has_x, 0, 1)) AS own_side, if(has_x, x_name, y_name), if(has_x, x_nth, y_nth), no_token, token,
      -- prefill traced the last of its prompt there
      if(status = 'DECODE_ONLY' AND (push, prompt_id, pos_id) IN (
        SELECT push, prompt_id, pos_id FROM {db}.trace_row
        WHERE push IN (SELECT push FROM asked) AND side = 0 AND phase_id = {prefill_last}), 'MISSING', status) AS own_status,
      multiIf(
        status = 'DRIFT', multiIf(isNull(rel_l2), 'UNKNOWN', assumeNotNull(rel_l2) <= ifNull(tolerance, -1), 'ROUNDING', 'DIVERGENT'),
        -- nothing but the sketches compares, and they are equal
        status = 'INCOMPARABLE' AND sketch_equal = 1 AND ifNull(rel_l2 = 0, 0) AND NOT other_hash, 'ROUNDING',
        '') AS class,
      -- scope
      if(alone, '', multiIf(by_hash, if(whole_hash, 'full', 'prefix'), isNotNull(sample_n), 'sample',
        sketch_n > 0, if(x_derived, 'sample', 'full'), '')),
      toUInt8(NOT alone),
      toUInt8(NOT alone AND (bitAnd(x_flags, 8) <> 0 OR bitAnd(y_flags, 8) <> 0)),
      toInt8(multiIf(status = 'MATCH', 0, class = 'ROUNDING' AND status = 'DRIFT', 1, class = 'UNKNOWN', 2,
        class = 'DIVERGENT', 3, status IN ('NONFINITE', 'AMBIGUOUS', 'CONFLICT'), 4, -1)) AS own_grade,
      -- what is missing here was traced by its other side at another position
      toUInt8(own_status = 'MISSING' AND ifNull(first_pos <> pos_id OR last_pos <> pos_id, 0)), toUInt64(1))) AS comparisons,
    groupArrayIf((own_side, tensor_id, own_grade), own_grade IN (0, 1) AND tensor_id IN (SELECT switch_on FROM names)) AS grades
  FROM (
    SELECT
      push, prompt_id, pos_id, layer, tensor_id, no_token, token, alone, has_x, ambiguous, toUInt8(has_x) AS other_side,
      (push IN (SELECT push FROM whole)) <> (bitAnd(x_flags, 16) <> 0) AS whole_hash, if(known = 1, rel_l2, NULL) AS exact,
      tupleElement(x, 1) AS x_phase, tupleElement(x, 3) AS x_name, tupleElement(y, 3) AS y_name,
      tupleElement(x, 4) AS x_nth, tupleElement(y, 4) AS y_nth,
      tupleElement(x, 5) AS x_flags, tupleElement(y, 5) AS y_flags,
      tupleElement(x, 6) AS x_n, tupleElement(y, 6) AS y_n,
      tupleElement(x, 7) AS x_hash, tupleElement(y, 7) AS y_hash,
      tupleElement(x, 8) AS x_min, tupleElement(y, 8) AS y_min,
      tupleElement(x, 9) AS x_max, tupleElement(y, 9) AS y_max,
      tupleElement(x, 10) AS x_mean, tupleElement(y, 10) AS y_mean,
      tupleElement(x, 11) AS x_abs_sum, tupleElement(y, 11) AS y_abs_sum,
      tupleElement(x, 14) AS x_nz, tupleElement(y, 14) AS y_nz,
      tupleElement(x, 16) AS x_derived, tupleElement(x, 21) AS tolerance,
      spoilt_x OR spoilt_y AS nonfinite,
      bitAnd(x_flags, 16) = bitAnd(y_flags, 16) AS same_algo,
      ifNull(x_hash = y_hash, 0) AS same_hash, ifNull(x_hash <> y_hash, 0) AS other_value,
      other_value AND same_algo AS other_hash,
      ifNull(x_n > 0 AND y_n = x_n, 0) AND isNotNull(x_hash) AND isNotNull(y_hash) AND same_algo AS by_hash,
      NOT (isNull(x_n) AND isNull(y_n) OR ifNull(x_n = y_n, 0)) AND bitAnd(bitOr(x_flags, y_flags), 2) = 0 AS other_length,
      -- 1 equal, 0 different, -1 when a sample is missing or the shorter one is how the longer one begins
      tupleElement(x, 19) AS u_n, tupleElement(y, 19) AS v_n, tupleElement(x, 20) AS u, tupleElement(y, 20) AS v,
      NOT alone AND isNotNull(u_n) AND ifNull(v_n > 0, 0) AND (ifNull(v_n = u_n, 0)
        OR substring(u, 1, 4 * toUInt64(ifNull(v_n, 0))) <> substring(v, 1, 4 * toUInt64(ifNull(u_n, 0)))) AS has_samples,
      if(has_samples, toInt8(ifNull(v_n = u_n, 0) AND u = v), toInt8(-1)) AS sample_equal,
      if(has_samples, least(u_n, v_n), NULL) AS sample_n,
      tupleElement(x, 17) AS k_sq, tupleElement(y, 17) AS l_sq,
      if(NOT alone AND ifNull(tupleElement(x, 15) = tupleElement(y, 15), 0) AND tupleElement(x, 16) = tupleElement(y, 16),
        assumeNotNull(tupleElement(x, 15)), 0) AS sketch_n,
      if(sketch_n > 0, tupleElement(x, 18), emptyArrayFloat64()) AS ks, if(sketch_n > 0, tupleElement(y, 18), emptyArrayFloat64()) AS ls,
      if(sketch_n > 0, toInt8(k_sq = l_sq AND arrayAll((a, b) -> a = b, ks, ls)), toInt8(-1)) AS sketch_equal,
      greatest(k_sq, l_sq) AS greater_sq,
      sqrt(0.5 * arraySum(arrayMap((a, b) -> (a - b) * (a - b), ks, ls)) / greater_sq) AS bucket_distance,
      abs(sqrt(k_sq) - sqrt(l_sq)) / sqrt(greater_sq) AS norm_distance,
      if(sketch_n > 0 AND greater_sq > 0 AND NOT isNaN(bucket_distance) AND NOT isNaN(norm_distance),
        greatest(bucket_distance, norm_distance), NULL) AS sketch_distance,
      -- what is equal covers all values, of rows that differ in what these values amount to
      same_hash OR sketch_n > 0 AND (isNull(x_hash) OR isNull(y_hash) OR NOT same_algo) AS all_equal,
      (isNull(x_n) AND isNull(y_n) OR ifNull(x_n = y_n, 0)) AND (isNull(x_min) AND isNull(y_min) OR ifNull(x_min = y_min, 0))
        AND (isNull(x_max) AND isNull(y_max) OR ifNull(x_max = y_max, 0)) AND (isNull(x_mean) AND isNull(y_mean) OR ifNull(x_mean = y_mean, 0))
        AND (isNull(x_abs_sum) AND isNull(y_abs_sum) OR ifNull(x_abs_sum = y_abs_sum, 0))
        AND (isNull(x_nz) AND isNull(y_nz) OR ifNull(x_nz = y_nz, 0)) AS same_statistics,
      ifNull(x_nz <> y_nz, 0)
        OR ifNull(abs(x_min - y_min) > 1e-5 * greatest(abs(x_min), abs(y_min)), 0)
        OR ifNull(abs(x_max - y_max) > 1e-5 * greatest(abs(x_max), abs(y_max)), 0)
        OR ifNull(abs(x_abs_sum - y_abs_sum) > 1e-5 * greatest(abs(x_abs_sum), abs(y_abs_sum)), 0)
        OR ifNull(abs(x_mean - y_mean) > 1e-5 * if(isNotNull(x_abs_sum) AND ifNull(x_n <> 0, 0), x_abs_sum / x_n, greatest(abs(x_mean), abs(y_mean))), 0) AS far_statistics,
      -- how far apart the rows are at least, as what each says of its values proves
      if(isNotNull(x_min + x_max + y_min + y_max), greatest(greatest(abs(x_min), abs(x_max)), greatest(abs(y_min), abs(y_max))), NULL) AS magnitude,
      if(isNotNull(x_abs_sum + y_abs_sum), greatest(x_abs_sum, y_abs_sum), NULL) AS greater_sum,
      sqrt(magnitude * coalesce(greater_sum, if(whole_hash, x_n * magnitude, NULL))) AS norm_at_most,
      if(NOT alone AND ifNull(x_n > 0 AND y_n = x_n, 0) AND NOT same_statistics AND ifNull(norm_at_most > 0, 0),
        greatest(greatest(0.,
          ifNull(greatest(abs(x_max - y_max), abs(x_min - y_min)) - 1e-5 * magnitude, 0.)), greatest(
          ifNull((abs(x_mean - y_mean) - 1e-5 * greater_sum / x_n) * sqrt(x_n), 0.),
          if(whole_hash, ifNull((abs(x_abs_sum - y_abs_sum) - 1e-5 * greater_sum) / sqrt(x_n), 0.), 0.)))
        / assumeNotNull(norm_at_most), 0.) AS least_distance,
      multiIf(
        -- a sum of squares is of these values, too
        NOT alone AND same_hash AND same_algo AND whole_hash AND sketch_n > 0 AND x_derived = 0
          AND ifNull(x_n = sketch_n AND y_n = sketch_n, 0) AND ifNull(abs(k_sq - l_sq) > 1e-5 * greater_sq, 0), 1,
        alone OR NOT all_equal OR same_statistics, 0,
        same_hash AND NOT same_algo, 0,
        same_hash AND ifNull(x_n <> y_n, 0), whole_hash OR ifNull(x_n < 256, 0) OR ifNull(y_n < 256, 0),
        if(same_hash, whole_hash OR ifNull(x_n <= 256, 0), ifNull(x_n = sketch_n, 0) AND ifNull(y_n = sketch_n, 0)), far_statistics,
        0) AS contradicted
    FROM (
      -- x: of several rows of a side, if there are, the first by phase, step, name and nth; y the same of the other
      SELECT
        push, prompt_id, pos_id, layer, tensor_id, isNull(token_id) AS no_token, ifNull(token_id, 0) AS token,
        isNull(logical_tok_idx) AS no_logical, ifNull(logical_tok_idx, 0) AS logical,
        groupArrayIf((phase_id, step, name_id, nth, flags, n, hash, min, max, mean, abs_sum, nan_count, inf_count, nz_count,
          sketch_n, sketch_derived, sum_sq, sketch, sample_n, sample, tolerance), side = 0) AS xs,
        groupArrayIf((phase_id, step, name_id, nth, flags, n, hash, min, max, mean, abs_sum, nan_count, inf_count, nz_count,
          sketch_n, sketch_derived, sum_sq, sketch, sample_n, sample, tolerance), side = 1) AS ys,
        notEmpty(xs) AS has_x, empty(xs) OR empty(ys) AS alone, {xs}[1] AS x, {ys}[1] AS y,
        -- the different ones among rows of one side; without a hash the sketch is what a row is known by
        length(groupUniqArrayIf((n, hash, min + 0, max + 0, mean + 0, abs_sum + 0, nan_count, inf_count, nz_count, bitAnd(flags, 17), isNull(sample_n), sample,
          if(isNull(hash), ifNull(sketch_n, -1), -2), if(isNull(hash), sketch_derived, 0), if(isNull(hash), sum_sq + 0, 0),
          if(isNull(hash), arrayMap(s -> s + 0, sketch), emptyArrayFloat64())), side = 0 AND crowded)) > 1
        OR length(groupUniqArrayIf((n, hash, min + 0, max + 0, mean + 0, abs_sum + 0, nan_count, inf_count, nz_count, bitAnd(flags, 17), isNull(sample_n), sample,
          if(isNull(hash), ifNull(sketch_n, -1), -2), if(isNull(hash), sketch_derived, 0), if(isNull(hash), sum_sq + 0, 0),
          if(isNull(hash), arrayMap(s -> s + 0, sketch), emptyArrayFloat64())), side = 1 AND crowded)) > 1 AS ambiguous,
        -- no row of its side stands for others that are not finite
        arrayExists(r -> bitAnd(tupleElement(r, 5), 1) <> 0 OR ifNull(tupleElement(r, 12) > 0, 0) OR ifNull(tupleElement(r, 13) > 0, 0), xs) AS spoilt_x,
        arrayExists(r -> bitAnd(tupleElement(r, 5), 1) <> 0 OR ifNull(tupleElement(r, 12) > 0, 0) OR ifNull(tupleElement(r, 13) > 0, 0), ys) AS spoilt_y,
        ifNull(tupleElement(x, 7), 0) AS prefill_hash, ifNull(tupleElement(y, 7), 0) AS decode_hash,
        ifNull(tupleElement(x, 6), -1) AS common_n
      FROM {db}.trace_row
      WHERE push IN (SELECT push FROM asked) AND side < 2 AND pos_id >= 0
        AND (crowded OR bitAnd(flags, 1) <> 0 OR ifNull(nan_count > 0, 0) OR ifNull(inf_count > 0, 0)
          OR (push, prompt_id, pos_id) IN (
            SELECT push, prompt_id, pos_id FROM {db}.trace_row
            WHERE push IN (SELECT push FROM asked) AND side = 0 AND pos_id >= 0))
      GROUP BY push, prompt_id, pos_id, layer, tensor_id, no_token, token, no_logical, logical
    )
    ALL LEFT JOIN (
      SELECT push, prompt_id, pos_id, layer, tensor_id, prefill_hash, decode_hash, n AS common_n, rel_l2, toUInt8(1) AS known
      FROM {db}.difference
      WHERE push IN (SELECT push FROM asked)
    ) USING (push, prompt_id, pos_id, layer, tensor_id, prefill_hash, decode_hash, common_n)
  )
  ARRAY JOIN
    [multiIf(
      alone, multiIf(nonfinite, 'NONFINITE', NOT has_x, 'DECODE_ONLY', x_phase = {prefill_last}, 'MISSING', 'PREFILL_ONLY'),
      ambiguous, 'AMBIGUOUS',
      ifNull(contradicted, 0) AND (same_hash OR sketch_equal = 1), 'CONFLICT',
      -- an equal sample of all that the hashes cover
      sample_equal = 1 AND other_value AND by_hash AND ifNull(sample_n >= if(whole_hash, x_n, least(x_n, 256)), 0), 'CONFLICT',
      nonfinite, 'NONFINITE',
      by_hash, if(same_hash AND sample_equal <> 0 AND least_distance = 0, 'MATCH', 'DRIFT'),
      sample_equal = 0 OR sketch_equal = 0, 'DRIFT',
      other_length OR other_hash, 'INCOMPARABLE',
      sample_equal = 1, if(least_distance = 0, 'MATCH', 'DRIFT'), 'INCOMPARABLE')] AS status,
    [multiIf(
      alone OR other_length OR nonfinite, NULL,
      by_hash AND same_hash AND sample_equal <> 0 AND least_distance = 0, 0,
      -- what sketches of all values, or what the rows say of them, refute was not measured of these rows: they err by far less
      by_hash AND isNotNull(exact) AND ifNull(least_distance <= 1.01 * exact + 2e-6, 0) AND (sketch_n > 0 AND x_derived OR ifNull(sketch_distance <= 2 * exact + 2e-6, 1)), exact,
      sketch_n > 0 AND NOT (x_derived AND by_hash AND sample_equal = 1),
      if(sketch_equal = 1, least_distance, if(isNotNull(sketch_distance), greatest(least_distance, sketch_distance), NULL)),
      NULL)] AS rel_l2
  ALL LEFT JOIN (
    SELECT push, prompt_id, layer, tensor_id, side AS other_side, min(pos_id) AS first_pos, max(pos_id) AS last_pos
    FROM {db}.trace_row
    WHERE push IN (SELECT push FROM asked) AND side < 2 AND pos_id >= 0
    GROUP BY push, prompt_id, layer, tensor_id, other_side
  ) USING (push, prompt_id, layer, tensor_id, other_side)
  GROUP BY push, prompt_id, pos_id, layer
  UNION ALL
  -- rows that can have no partner, and are not finite
  SELECT
    push, prompt_id, pos_id, layer,
    [(tensor_id, side, name_id, nth, isNull(token_id), ifNull(token_id, 0), 'NONFINITE', '', '', toUInt8(0), toUInt8(0), toInt8(4), toUInt8(0), toUInt64(1))] AS comparisons,
    arrayFilter(g -> 0, [(side, tensor_id, toInt8(0))]) AS grades
  FROM {db}.trace_row
  WHERE push IN (SELECT push FROM asked) AND (side >= 2 OR pos_id < 0)
    AND (bitAnd(flags, 1) <> 0 OR ifNull(nan_count > 0, 0) OR ifNull(inf_count > 0, 0))
  UNION ALL
  -- where only decode traced something: rows that stand alone, all of them finite
  SELECT
    push, prompt_id, toInt32(0) AS no_pos, toInt32(0) AS no_layer,
    [(toInt64(0), toUInt8(1), any(name_id), toInt64(0), toUInt8(1), toInt64(0), 'DECODE_ONLY', '', '', toUInt8(0), toUInt8(0), toInt8(-1), toUInt8(0), toUInt64(count()))] AS comparisons,
    arrayFilter(g -> 0, [(toUInt8(1), toInt64(0), toInt8(0))]) AS grades
  FROM {db}.trace_row
  WHERE push IN (SELECT push FROM asked) AND side = 1 AND pos_id >= 0 AND NOT crowded
    AND NOT (bitAnd(flags, 1) <> 0 OR ifNull(nan_count > 0, 0) OR ifNull(inf_count > 0, 0))
    AND (push, prompt_id, pos_id) NOT IN (
      SELECT push, prompt_id, pos_id FROM {db}.trace_row WHERE push IN (SELECT push FROM asked) AND side = 0 AND pos_id >= 0)
  GROUP BY push, prompt_id
)
ARRAY JOIN comparisons AS c, arrayMap(r -> tupleElement(r, 3), comparisons) AS name_id,
  arrayMap(r -> tupleElement(r, 2), comparisons) AS side, arrayMap(r -> tupleElement(r, 12), comparisons) AS grade,
  arrayMap(r -> toUInt8(tupleElement(r, 7) IN ('DRIFT', 'NONFINITE', 'AMBIGUOUS', 'CONFLICT', 'MISSING')), comparisons) AS blamed
ALL LEFT JOIN (
  SELECT name_id, of_tensor_id, ord, tensor, stage, name_cause, switch_on, switch_cause FROM names
) USING (name_id)
GROUP BY push, prompt_id, status, class, scope, cause
