-- The rows of failing pairs at the place (layer and tensor) where prompts of a run fail first: beyond rounding, and in
-- a run whose rows are to be equal (`strict`) where they differ. Of four prompts that fail there first up to three
-- pairs each: the first that fails, and at the next two positions what differs by more than the tolerance. One row per
-- pair and side, 0 prefill and 1 decode: its own row, and that of the other side (other_*). Columns of a row that is
-- missing are NULL. Filter on the run.
CREATE VIEW failing_row AS
SELECT
  p.run_id AS run_id, p.run AS run, p.prompt_id AS prompt_id, p.prompt AS prompt, p.strict AS strict,
  CASE WHEN d.rel_l2 IS NOT NULL THEN d.rel_l2 <= p.tolerance ELSE p.equal END AS equal,  -- 1: within rounding
  z.pos_id AS pos_id, ifnull(w.token_id, o.token_id) AS token_id, p.layer AS layer, p.tensor AS tensor,
  t.id AS tensor_id, t.name AS point, t.ord AS point_ord, t.switch_on IS NOT NULL AS turns,  -- 1: RoPE has turned it
  p.tolerance AS tolerance, d.id AS difference_id, d.rel_l2 AS rel_l2,
  d.differing AS differing, d.first_at AS first_at, d.last_at AS last_at, d.max_abs AS max_abs, d.heads AS heads,
  d.segments AS segments,
  -- part of the squared distance up to which a segment is as it should be: nearly all of it is elsewhere, or less than
  -- its part of the tolerance
  CASE WHEN d.segments >= 8 AND (SELECT max(e.share_ppm) FROM difference_part e WHERE e.difference_id = d.id) >= 900000 THEN 100000
    WHEN p.strict THEN -1 ELSE max(1, 1e6 / d.segments * pow(p.tolerance / d.rel_l2, 2)) END AS clean_ppm,
  CASE WHEN z.pos_id = p.pos_id THEN p.nth END AS begins,  -- number of the prompt, for its first pair
  h.column1 AS side, h.column2 AS side_name, h.column3 AS other_side_name,
  w.hash AS hash, w.n AS n, w.min AS min, w.max AS max, w.mean AS mean, w.abs_sum AS abs_sum, w.nan AS nan, w.inf AS inf,
  w.nz_count AS nz, w.sketch_id AS sketch_id,
  (SELECT e.data FROM sample e WHERE e.id = w.sample_id) AS sample,
  o.hash AS other_hash, o.n AS other_n, o.min AS other_min, o.max AS other_max, o.mean AS other_mean,
  o.abs_sum AS other_abs_sum, o.nan AS other_nan, o.inf AS other_inf, o.nz_count AS other_nz,
  o.sketch_id AS other_sketch_id,
  (SELECT e.data FROM sample e WHERE e.id = o.sample_id) AS other_sample,  -- leading values, 4 bytes each
  ifnull(w.nan, 0) + ifnull(w.inf, 0) + ifnull(o.nan, 0) + ifnull(o.inf, 0) = 0 AS finite
FROM (
  SELECT
    v.*, m.tensor_id AS tensor_id,
    (SELECT e.rel_l2 FROM run_tolerance e WHERE e.run_id = v.run_id AND e.tensor_id = m.tensor_id) AS tolerance,
    row_number() OVER (PARTITION BY v.run_id, v.run, v.layer, v.tensor ORDER BY v.prompt_id) AS nth
  FROM (
    SELECT
      r.id AS run_id, r.name AS run, q.id AS prompt_id, q.name AS prompt, r.mode IS 'batch_invariant' AS strict,
      v.numeric_first_fail IS NULL AS equal,
      CASE WHEN r.mode IS 'batch_invariant' THEN v.strict_first_fail ELSE v.numeric_first_fail END AS first_fail,
      ifnull(CASE WHEN r.mode IS 'batch_invariant' THEN v.strict_pos_id ELSE v.numeric_pos_id END, -1) AS pos_id,
      CASE WHEN r.mode IS 'batch_invariant' THEN v.strict_token_id ELSE v.numeric_token_id END AS token_id,
      CASE WHEN r.mode IS 'batch_invariant' THEN v.strict_layer ELSE v.numeric_layer END AS layer,
      CASE WHEN r.mode IS 'batch_invariant' THEN v.strict_tensor ELSE v.numeric_tensor END AS tensor
    FROM run r
    CROSS JOIN verdict v ON v.run_id = r.id
    JOIN prompt q ON q.run_id = r.id AND q.name = v.item
    WHERE v.level = 'prompt') v
  CROSS JOIN tensor_name m ON m.name = v.tensor
  WHERE v.first_fail IS NOT NULL) p
CROSS JOIN tensor t ON t.id = p.tensor_id
CROSS JOIN (VALUES (0, 'prefill', 'decode'), (1, 'decode', 'prefill')) h
CROSS JOIN traced_position z ON z.run_id = p.run_id AND z.prompt_id = p.prompt_id AND z.side = h.column1
  AND z.pos_id IN (
    SELECT y.pos_id FROM traced_position y
    WHERE y.run_id = p.run_id AND y.prompt_id = p.prompt_id AND y.side = h.column1 AND y.pos_id >= p.pos_id
    ORDER BY y.pos_id LIMIT 3)
LEFT JOIN trace_row w ON w.run_id = p.run_id AND w.prompt_id = p.prompt_id AND w.side = h.column1
  AND w.pos_id = z.pos_id AND w.layer = p.layer AND w.tensor_id = t.id AND w.stands
  AND (z.pos_id <> p.pos_id OR w.token_id IS p.token_id)
LEFT JOIN trace_row o ON o.run_id = p.run_id AND o.prompt_id = p.prompt_id AND o.side = 1 - h.column1
  AND o.pos_id = z.pos_id AND o.layer = p.layer AND o.tensor_id = t.id AND o.stands
  AND o.token_id IS CASE WHEN w.n IS NULL THEN p.token_id ELSE w.token_id END
LEFT JOIN difference d ON d.run_id = p.run_id AND d.prompt_id = p.prompt_id AND d.pos_id = z.pos_id AND d.layer = p.layer
  AND d.tensor_id = t.id AND d.prefill_hash = CASE h.column1 WHEN 0 THEN w.hash ELSE o.hash END
  AND d.decode_hash = CASE h.column1 WHEN 0 THEN o.hash ELSE w.hash END
WHERE p.nth <= 4 AND (z.pos_id = p.pos_id
  OR w.hash <> o.hash AND (p.strict OR d.rel_l2 > p.tolerance OR w.nan + w.inf + o.nan + o.inf > 0));
