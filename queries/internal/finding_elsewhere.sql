-- Findings that other rows of the run tell about a failing pair: other places of the run, what is computed from it,
-- repeats of the prompt, and pairs at other positions and in prompts of other lengths. Columns as in diagnosis; `rank`:
-- of several rows of one finding and unit the least counts. Filter on the run.
CREATE VIEW finding_elsewhere AS
-- a side's row is another row of this position, and the other side's is not. Rows of one value are like many others, and
-- those of position 0 like their inputs: it turns by no angle and has one key.
SELECT
  f.run AS run, f.prompt AS prompt, f.layer AS layer, f.tensor AS tensor,
  CASE WHEN o.layer = f.layer THEN 'OTHER_TENSOR' ELSE 'OTHER_LAYER' END AS finding,
  f.side_name AS side, CASE o.side WHEN 0 THEN 'prefill' ELSE 'decode' END AS other_side,
  CASE WHEN o.layer = f.layer THEN (SELECT m.name FROM tensor_name m WHERE m.id = o.name_id) END AS other_tensor,
  'layer' AS unit, f.layer AS at, o.layer AS other_at, NULL AS count, NULL AS of_count, NULL AS value, NULL AS distance,
  f.pos_id AS pos_id, f.run_id AS run_id, f.prompt_id AS prompt_id,
  (1 - f.side) * 1000000 + o.layer + abs(o.side - f.side) * 100000 + o.tensor_id AS rank
FROM failing_row f
CROSS JOIN trace_row o ON o.run_id = f.run_id AND o.prompt_id = f.prompt_id AND o.side IN (0, 1) AND o.pos_id = f.pos_id
WHERE f.pos_id <> 0 AND o.hash = f.hash AND o.n = f.n AND o.hash IS NOT f.other_hash AND f.nan IS NOT f.n AND f.nz IS NOT 0
  AND CASE
    WHEN o.layer = f.layer THEN o.tensor_id <> f.tensor_id AND NOT EXISTS (
      SELECT 1 FROM edge e WHERE e.kind IN ('copy', 'alias', 'weight')
        AND (e.to_id, e.from_id) IN (VALUES (f.tensor_id, o.tensor_id), (o.tensor_id, f.tensor_id)))
    ELSE o.side = 1 - f.side AND o.tensor_id = f.tensor_id AND NOT EXISTS (
      SELECT 1 FROM edge e WHERE e.from_id = f.tensor_id AND e.kind = 'weight') END
  AND NOT EXISTS (
    SELECT 1 FROM trace_row y
    WHERE y.run_id = f.run_id AND y.prompt_id = f.prompt_id AND y.side IN (0, 1) AND y.pos_id = f.pos_id
      AND y.layer = o.layer AND y.tensor_id = o.tensor_id AND y.hash = f.other_hash)
UNION ALL
-- a row w, here or later, that differs from its partner p and is the row o of the position before or after: of the
-- same trace point, or of the one that it is a copy of. Not where the tokens are the same.
SELECT
  f.run, f.prompt, f.layer, f.tensor, CASE WHEN o.side = w.side AND o.tensor_id = w.tensor_id THEN 'STALE_ROW' ELSE 'OTHER_POSITION' END,
  f.side_name, CASE o.side WHEN 0 THEN 'prefill' ELSE 'decode' END,
  CASE WHEN o.tensor_id <> w.tensor_id THEN (SELECT t.name FROM tensor t WHERE t.id = o.tensor_id) END,
  'position', w.pos_id, o.pos_id, NULL, NULL, NULL, NULL, f.pos_id, f.run_id, f.prompt_id,
  (o.pos_id > w.pos_id) * 1e12 + w.pos_id * 8 + (1 - w.side) * 4 + (o.tensor_id <> w.tensor_id) * 2 + o.side
FROM failing_row f
CROSS JOIN traced_position z ON z.run_id = f.run_id AND z.prompt_id = f.prompt_id AND z.side = f.side
CROSS JOIN trace_row w ON w.run_id = f.run_id AND w.prompt_id = f.prompt_id AND w.side = f.side AND w.pos_id = z.pos_id
  AND w.layer = f.layer AND w.tensor_id = f.tensor_id
CROSS JOIN trace_row p ON p.run_id = f.run_id AND p.prompt_id = f.prompt_id AND p.side = 1 - f.side AND p.pos_id = z.pos_id
  AND p.layer = f.layer AND p.tensor_id = f.tensor_id
CROSS JOIN trace_row o ON o.run_id = f.run_id AND o.prompt_id = f.prompt_id AND o.side IN (0, 1)
  AND o.pos_id IN (z.pos_id - 1, z.pos_id + 1) AND o.layer = f.layer
  AND +o.tensor_id IN (f.tensor_id, (SELECT e.from_id FROM edge e WHERE e.to_id = f.tensor_id AND e.kind = 'copy' AND e.layer = 'same'))
WHERE f.begins AND z.pos_id >= max(f.pos_id, 0) AND p.hash IS NOT w.hash AND p.token_id IS w.token_id AND w.nan IS NOT w.n
  AND w.nz_count IS NOT 0 AND o.hash = w.hash AND o.n = w.n AND (o.token_id IS NULL OR o.token_id IS NOT w.token_id)
  AND NOT (o.side = w.side AND o.tensor_id = w.tensor_id AND o.pos_id > w.pos_id)
  AND NOT EXISTS (SELECT 1 FROM edge e WHERE e.from_id = w.tensor_id AND e.kind = 'weight')
  -- nor rows that are the same at both positions: of the partner, or of its own side unless o is of that
  AND NOT EXISTS (
    SELECT 1 FROM trace_row e
    WHERE e.run_id = w.run_id AND e.prompt_id = w.prompt_id AND e.side < 2 AND e.pos_id = o.pos_id
      AND e.layer = w.layer AND e.tensor_id = w.tensor_id
      AND e.hash = CASE WHEN e.side = w.side THEN w.hash ELSE p.hash END
      AND NOT (e.side = w.side AND o.side = w.side AND o.tensor_id = w.tensor_id))
UNION ALL
-- the cache's rows are what differs first, so that its own row does not
SELECT
  f.run, f.prompt, f.layer, f.tensor, 'EARLIER_ROW', NULL, NULL, c.name, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
  f.pos_id, f.run_id, f.prompt_id, 0
FROM failing_row f
CROSS JOIN tensor c ON c.name = substr(f.point, 1, 7) WHERE f.side = 1 AND f.point IN ('k_cache_rows', 'v_cache_rows') AND f.pos_id > 0 AND 2 = (
  SELECT count(DISTINCT o.side) FROM trace_row o
  WHERE o.run_id = f.run_id AND o.prompt_id = f.prompt_id AND o.side IN (0, 1) AND o.pos_id = f.pos_id
    AND o.layer = f.layer AND o.tensor_id = c.id)
UNION ALL
-- several rows of one side, and repeats of the prompt: an even one comes after the prompts that the first run came
-- after, an odd one after others. Of two results one that goes by what came before is STATE
SELECT
  g.run, g.prompt, g.layer, g.tensor, CASE g.kind WHEN 0 THEN 'REPEATED' WHEN 1 THEN 'STATE' ELSE 'UNSTABLE' END,
  iif(g.kind > 0, g.side_name, NULL), NULL, NULL, NULL, NULL, NULL,
  CASE WHEN g.kind = 0 THEN g.repeats WHEN g.kind = 1 THEN g.odd WHEN g.repeats > 0 THEN g.odd_others + g.even_others ELSE g.rows END,
  iif(g.kind > 0, nullif(g.repeats, 0), NULL), NULL, NULL, g.pos_id, g.run_id, g.prompt_id, 1 - g.side
FROM (SELECT s.*, max(s.kind) OVER (PARTITION BY s.run_id, s.run, s.prompt_id, s.prompt, s.pos_id, s.layer, s.tensor_id) AS worst
  FROM (SELECT c.*, CASE WHEN c.least IS NULL THEN 0 WHEN c.seen > 2 AND c.least = c.most AND c.odd > 0 AND c.odd_others IN (0, c.odd)
      AND c.odd_others + c.rows > 1 AND c.even_others = 0 THEN 1 ELSE 2 END AS kind
    FROM (
      SELECT
        f.*, row_number() OVER part AS nth, count(*) OVER part AS seen, sum(o.side = 2) OVER part AS repeats, sum(o.side = 2 AND o.step % 2) OVER part AS odd,
        min(iif(o.hash IS NOT f.hash, o.hash, NULL)) OVER part AS least, max(iif(o.hash IS NOT f.hash, o.hash, NULL)) OVER part AS most,
        sum(o.side = 2 AND o.step % 2 = 1 AND o.hash IS NOT f.hash) OVER part AS odd_others, sum(o.side = 2 AND o.step % 2 = 0 AND o.hash IS NOT f.hash) OVER part AS even_others,
        1 + sum(o.side < 2 AND o.hash IS NOT f.hash) OVER part AS rows  -- that differ
      FROM failing_row f
      CROSS JOIN trace_row o ON o.run_id = f.run_id AND o.prompt_id = f.prompt_id AND o.side IN (f.side, 2) AND o.pos_id = f.pos_id
        AND o.layer = f.layer AND o.tensor_id = f.tensor_id AND o.token_id IS f.token_id
        AND (o.side < 2 OR o.phase_id = (SELECT p.id FROM phase p WHERE p.name = 'repeat_' || f.side_name))
      WINDOW part AS (PARTITION BY f.run_id, f.run, f.prompt_id, f.prompt, f.pos_id, f.layer, f.tensor_id, f.side)) c
    WHERE c.nth = 1) s) g
WHERE g.kind = g.worst AND (g.repeats > 0 OR g.rows > 1)
UNION ALL
-- positions, and lengths of prompts, up to which that trace point is clean and from which on it is not: two of each
SELECT
  w.run, w.prompt, w.layer, w.tensor, 'ONSET', NULL, NULL, NULL, w.unit, w.first_bad, w.last_clean,
  (SELECT ifnull(max(CASE WHEN w.first_bad % b.column1 = 0 THEN b.column1 END),
     max(CASE WHEN w.last_clean = w.first_bad - 1 AND w.last_clean > 0 AND w.last_clean % b.column1 = 0 THEN b.column1 END))
   FROM (VALUES (16), (32), (64), (96), (128), (256)) b),
  (SELECT CAST(a.value AS INTEGER) FROM attribute a
   WHERE a.run_id = w.run_id AND a.dim = 'batch' AND CAST(a.value AS INTEGER) > 1 AND w.first_bad % CAST(a.value AS INTEGER) = 0),
  NULL, NULL, w.pos_id, w.run_id, w.prompt_id, 0
FROM (
  SELECT
    g.*, u.column1 AS unit, row_number() OVER part AS nth, min(ifnull(abs(g.sign), 0)) OVER part AS known,
    min(CASE WHEN g.sign < 0 THEN iif(u.column1 = 'position', g.at, g.length) END) OVER part AS first_clean,
    max(CASE WHEN g.sign < 0 THEN iif(u.column1 = 'position', g.at, g.length) END) OVER part AS last_clean,
    min(CASE WHEN g.sign > 0 THEN iif(u.column1 = 'position', g.at, g.length) END) OVER part AS first_bad,
    max(CASE WHEN g.sign > 0 THEN iif(u.column1 = 'position', g.at, g.length) END) OVER part AS last_bad
  FROM (
    SELECT DISTINCT  -- else SQLite works the grade out wherever it is named
      f.run AS run, f.prompt AS prompt, f.layer AS layer, f.tensor AS tensor, f.pos_id AS pos_id, f.run_id AS run_id,
      f.prompt_id AS prompt_id, s.key_prompt_id AS at_prompt, s.key_pos_id AS at, q.n_tokens AS length,
      sign(s.grade - CASE WHEN f.strict THEN 0.5 ELSE 2 END) AS sign  -- -1 clean, 1 bad, 0 neither
    FROM failing_row f
    CROSS JOIN traced_position z ON z.run_id = f.run_id AND z.side = 0 CROSS JOIN prompt q ON q.id = z.prompt_id
    CROSS JOIN comparison_graded s ON s.run_id = f.run_id AND s.other_run_id = f.run_id AND s.side = 0
      AND s.key_prompt_id = z.prompt_id AND s.key_pos_id = z.pos_id AND s.key_layer = f.layer AND s.key_tensor_id = f.tensor_id
    WHERE f.side = 1 AND f.begins = 1 AND s.compared) g
  CROSS JOIN (VALUES ('position'), ('tokens')) u
  WINDOW part AS (PARTITION BY g.run_id, g.run, g.layer, g.tensor, u.column1)) w
WHERE w.nth = 1 AND w.known AND w.first_clean < w.last_clean AND w.last_clean < w.first_bad AND w.first_bad < w.last_bad;
