-- One row per prompt: rows that it lacks. unmet: planned rows that are not there, or 1 where it was announced without
-- any, or where the first prefill_last of a prompt of known length is not at its last position. unpaired: trace points
-- without one pair, in a run that has pairs and whose rows an engine wrote for this, or whose source says how it began
-- and ended; files of older tools, which trace one side of a point by design, do not.
-- why: in words, where either is more than 0. Name the run_id.
CREATE VIEW lacking AS
WITH
  -- planned rows of the prompt k that are not there; SQLite resolves k where this is used
  unmet(layer, tensor_id, side) AS NOT MATERIALIZED (
    SELECT l.layer, l.tensor_id, l.side
    FROM plan l
    WHERE l.run_id = k.run_id AND l.prompt_id = k.prompt_id AND NOT EXISTS (
      SELECT 1 FROM trace_row x
      WHERE x.run_id = l.run_id AND x.prompt_id = l.prompt_id AND x.side = l.side
        AND x.layer = l.layer AND x.tensor_id = l.tensor_id
        -- what has no known position is compared with nothing, and what a document states was not traced
        AND x.pos_id >= 0 AND (x.flags & 8) = 0)),
  -- its trace points without a pair
  unpaired(layer, tensor_id) AS NOT MATERIALIZED (
    SELECT u.layer, u.tensor_id
    FROM (
      SELECT DISTINCT y.layer AS layer, y.tensor_id AS tensor_id
      FROM trace_row y WHERE y.run_id = k.run_id AND y.prompt_id = k.prompt_id AND y.side IN (0, 1) AND (y.flags & 8) = 0) u
    WHERE NOT EXISTS (
      SELECT 1
      FROM traced_position z
      CROSS JOIN trace_row a ON a.run_id = z.run_id AND a.prompt_id = z.prompt_id AND a.side = 0 AND a.pos_id = z.pos_id
        AND a.layer = u.layer AND a.tensor_id = u.tensor_id
      CROSS JOIN trace_row b ON b.run_id = z.run_id AND b.prompt_id = z.prompt_id AND b.side = 1 AND b.pos_id = z.pos_id
        AND b.layer = u.layer AND b.tensor_id = u.tensor_id
      WHERE z.run_id = k.run_id AND z.prompt_id = k.prompt_id AND z.side = 1 AND z.pos_id >= 0))
SELECT
  k.run_id AS run_id, k.prompt_id AS prompt_id,
  CASE WHEN k.bare THEN 1 ELSE (SELECT count(*) FROM unmet) + ifnull(k.last_at <> k.n_tokens - 1, 0) END AS unmet,
  CASE WHEN k.is_written THEN (SELECT count(*) FROM unpaired) ELSE 0 END AS unpaired,
  CASE
    WHEN k.bare THEN 'prompt ' || k.name || ' has no rows'
    WHEN k.last_at <> k.n_tokens - 1 THEN printf('prefill_last of prompt %s is at position %d, and its last is %d', k.name, k.last_at, k.n_tokens - 1)
    WHEN EXISTS (SELECT 1 FROM unmet) THEN (SELECT printf('%d row%s that it declares %s not there', count(*), CASE count(*) WHEN 1 THEN '' ELSE 's' END,
            CASE count(*) WHEN 1 THEN 'is' ELSE 'are' END)
          || substr(min(printf('%07d %07d', CASE WHEN l.layer < 0 THEN 1000000 ELSE l.layer END, t.ord) || ', first ' || t.name
            || CASE WHEN l.layer < 0 THEN '' ELSE ' of layer ' || l.layer END || ', prompt ' || k.name
            || CASE l.side WHEN 0 THEN ', prefill' ELSE ', decode' END), 16)
       FROM unmet l JOIN tensor t ON t.id = l.tensor_id)
    WHEN k.is_written AND EXISTS (SELECT 1 FROM unpaired) THEN (SELECT printf('%d trace point%s of prompt %s %s no pair, first ', count(*), CASE count(*) WHEN 1 THEN '' ELSE 's' END,
            k.name, CASE count(*) WHEN 1 THEN 'has' ELSE 'have' END)
          || substr(min(printf('%07d %07d ', CASE WHEN u.layer < 0 THEN 1000000 ELSE u.layer END, t.ord) || t.name
            || CASE WHEN u.layer < 0 THEN '' ELSE ' of layer ' || u.layer END), 17)
       FROM unpaired u JOIN tensor t ON t.id = u.tensor_id)
  END AS why
FROM (
  SELECT
    q.run_id AS run_id, q.id AS prompt_id, q.name AS name, q.n_tokens AS n_tokens,
    -- of prefill_last; later ones are prefills of the prompt and what was decoded after it
    (SELECT min(z.pos_id) FROM traced_position z
     WHERE z.run_id = q.run_id AND z.prompt_id = q.id AND z.side = 0 AND z.demands
       AND EXISTS (SELECT 1 FROM source s WHERE s.run_id = q.run_id AND s.shape IN ('row', 'engine'))) AS last_at,
    -- its tokens or its text are known, or nothing else speaks of it; a log states how long its prompt is, whether
    -- that was traced or not. One with a plan is counted by that
    NOT EXISTS (SELECT 1 FROM plan l WHERE l.run_id = q.run_id AND l.prompt_id = q.id)
      AND (q.token_ids IS NOT NULL OR q.text_sha256 IS NOT NULL
        OR NOT EXISTS (SELECT 1 FROM report_pair p WHERE p.run_id = q.run_id AND p.prompt_id = q.id)
          AND NOT EXISTS (SELECT 1 FROM readout o WHERE o.run_id = q.run_id AND o.prompt_id = q.id)
          AND NOT EXISTS (SELECT 1 FROM run_metric m WHERE m.run_id = q.run_id AND m.name = 'prompt_tokens' AND m.prompt = q.name))
      AND EXISTS (SELECT 1 FROM trace_row x WHERE x.run_id = q.run_id AND (x.flags & 8) = 0)
      AND NOT EXISTS (SELECT 1 FROM trace_row x WHERE x.run_id = q.run_id AND x.prompt_id = q.id AND (x.flags & 8) = 0) AS bare,
    (EXISTS (SELECT 1 FROM source s WHERE s.run_id = q.run_id AND s.shape IN ('row', 'engine'))
        OR EXISTS (SELECT 1 FROM run_event e WHERE e.run_id = q.run_id))
      AND EXISTS (
        SELECT 1
        FROM traced_position z
        CROSS JOIN trace_row b ON b.run_id = z.run_id AND b.prompt_id = z.prompt_id AND b.side = 1 AND b.pos_id = z.pos_id
        CROSS JOIN trace_row a ON a.run_id = z.run_id AND a.prompt_id = z.prompt_id AND a.side = 0 AND a.pos_id = z.pos_id
          AND a.layer = b.layer AND a.tensor_id = b.tensor_id
        WHERE z.run_id = q.run_id AND z.side = 1 AND z.pos_id >= 0) AS is_written
  FROM prompt q) k;
