-- Facts for a run's verdict other than comparisons of its rows, one row per kind and prompt (0: the whole run). DECODE_ONLY: positions that only decode traced. REFUTED: a readout that double arithmetic does
-- not bear out. UNMET: planned rows that are not there, and prompts that were announced without any. LOST: rows
-- fewer than the run says it wrote. What a report's table lists, where that is the evidence, line by line:
-- `claimed` pairs. RUN: every run has one, so that one without anything else is there too.
CREATE VIEW uncompared AS
SELECT
  z.run_id AS run_id, z.prompt_id AS prompt_id, 'DECODE_ONLY' AS status, NULL AS class, NULL AS cause,
  sum((SELECT count(*) FROM trace_row x
       WHERE x.run_id = z.run_id AND x.prompt_id = z.prompt_id AND x.side = 1 AND x.pos_id = z.pos_id AND x.stands)) AS count,
  0 AS claimed, NULL AS forward_layer, NULL AS layer, NULL AS name_id, NULL AS pos_id, NULL AS token_id, NULL AS report_line
FROM position z
WHERE z.decode_only
GROUP BY z.run_id, z.prompt_id
UNION ALL
SELECT o.run_id, o.prompt_id, 'REFUTED', NULL, o.cause, 1, 0, 1000000, -1, o.name_id, o.pos_id, NULL, NULL
FROM refuted_readout o
UNION ALL
SELECT l.run_id, l.prompt_id, 'UNMET', NULL, NULL, count(*), 0, NULL, NULL, NULL, NULL, NULL, NULL
FROM plan l
WHERE NOT EXISTS (
  SELECT 1 FROM trace_row x
  WHERE x.run_id = l.run_id AND x.prompt_id = l.prompt_id AND x.side = l.side
    AND x.layer = l.layer AND x.tensor_id = l.tensor_id
    -- what has no known position is compared with nothing, and what a document states was not traced
    AND x.pos_id >= 0 AND (x.flags & 8) = 0)
GROUP BY l.run_id, l.prompt_id
UNION ALL
-- A prompt is announced when its tokens or its text are known, or when nothing else speaks of it; a log states how
-- long its prompt is, whether that was traced or not. One with a plan is counted above.
SELECT q.run_id, q.id, 'UNMET', NULL, NULL, 1, 0, NULL, NULL, NULL, NULL, NULL, NULL
FROM prompt q
WHERE NOT EXISTS (SELECT 1 FROM plan l WHERE l.run_id = q.run_id AND l.prompt_id = q.id)
  AND (q.token_ids IS NOT NULL OR q.text_sha256 IS NOT NULL
    OR NOT EXISTS (SELECT 1 FROM report_pair p WHERE p.run_id = q.run_id AND p.prompt_id = q.id)
      AND NOT EXISTS (SELECT 1 FROM readout o WHERE o.run_id = q.run_id AND o.prompt_id = q.id)
      AND NOT EXISTS (SELECT 1 FROM run_metric m WHERE m.run_id = q.run_id AND m.name = 'prompt_tokens' AND m.prompt = q.name))
  AND EXISTS (SELECT 1 FROM trace_row x WHERE x.run_id = q.run_id AND (x.flags & 8) = 0)
  AND NOT EXISTS (SELECT 1 FROM trace_row x WHERE x.run_id = q.run_id AND x.prompt_id = q.id AND (x.flags & 8) = 0)
UNION ALL
-- A row that an engine wrote twice counts twice. A row that came again in a file does not, for that may be a
-- copy, and a row that only a document states does not.
SELECT g.run_id, 0, 'LOST', NULL, NULL, g.count, 0, NULL, NULL, NULL, NULL, NULL, NULL
FROM (
  SELECT
    r.id AS run_id,
    (SELECT max(CAST(a.value AS INTEGER)) FROM attribute a WHERE a.run_id = r.id AND a.dim = 'trace_rows')
      - (SELECT count(*) FROM trace_row x WHERE x.run_id = r.id AND (x.flags & 8) = 0)
      - (SELECT ifnull(sum(s.duplicates), 0) FROM source s WHERE s.run_id = r.id AND s.shape = 'engine') AS count
  FROM run r
  WHERE EXISTS (SELECT 1 FROM attribute a WHERE a.run_id = r.id AND a.dim = 'trace_rows')) g
WHERE g.count > 0
UNION ALL
SELECT
  p.run_id, p.prompt_id, p.status, CASE p.status WHEN 'DRIFT' THEN 'UNKNOWN' END,
  CASE p.status WHEN 'MISSING' THEN 'TRACE_OFFSET' WHEN 'DRIFT' THEN coalesce(p.cause, n.cause) END, 1, p.status <> 'MISSING',
  CASE WHEN k.stage = 'head' OR p.layer < 0 THEN 1000000 ELSE p.layer END, p.layer, n.id, p.pos_id, p.token_id, p.line
FROM run_evidence e
CROSS JOIN report_pair p ON p.run_id = e.run_id AND p.source_id = e.report_source_id
LEFT JOIN tensor_name n ON n.id = p.name_id
LEFT JOIN tensor k ON k.id = n.tensor_id
UNION ALL
SELECT r.id, 0, 'RUN', NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL
FROM run r;
