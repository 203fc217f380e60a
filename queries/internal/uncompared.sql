-- Facts for a run's verdict other than comparisons of its rows, one row per kind and prompt (0: the whole run).
-- DECODE_ONLY: positions that only decode traced. REFUTED: a readout that double arithmetic does not bear out. UNMET
-- and UNPAIRED: see lacking. LOST: rows fewer than the run says it wrote. What a report's table lists, where that is
-- the evidence, line by line: `claimed` pairs. RUN: every run has one, so that one without anything else is there too.
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
SELECT k.run_id, k.prompt_id, 'UNMET', NULL, NULL, k.unmet, 0, NULL, NULL, NULL, NULL, NULL, NULL
FROM lacking k
WHERE k.unmet > 0
UNION ALL
SELECT k.run_id, k.prompt_id, 'UNPAIRED', NULL, NULL, k.unpaired, 0, NULL, NULL, NULL, NULL, NULL, NULL
FROM lacking k
WHERE k.unpaired > 0
UNION ALL
SELECT s.run_id, 0, 'LOST', NULL, NULL, s.lost, 0, NULL, NULL, NULL, NULL, NULL, NULL
FROM run_state s
WHERE s.lost > 0
UNION ALL
SELECT
  p.run_id, p.prompt_id, p.status, CASE p.status WHEN 'DRIFT' THEN 'UNKNOWN' END,
  CASE p.status WHEN 'MISSING' THEN 'TRACE_OFFSET' WHEN 'DRIFT' THEN coalesce(p.cause, n.cause) END, 1, p.status <> 'MISSING',
  CASE WHEN k.stage = 'head' OR p.layer < 0 THEN 1000000 ELSE p.layer END, p.layer, n.id, p.pos_id, p.token_id, p.line
FROM run_state e
CROSS JOIN report_pair p ON p.run_id = e.run_id AND p.source_id = e.report_source_id
LEFT JOIN tensor_name n ON n.id = p.name_id
LEFT JOIN tensor k ON k.id = n.tensor_id
UNION ALL
SELECT r.id, 0, 'RUN', NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL
FROM run r;
