-- Every two runs that are not one, and why rows of the one cannot be held against rows of the other; NULL when they can:
-- another model, another choice of what to trace. What a run does not say is no reason. A model is told by its root
-- where both runs say it, else by the SHA-256 of its file. Further rows name a prompt that the two do not have in common,
-- and the reason; with other tokens it is one why the runs cannot be compared as a whole. Name both. Plain joins, so that
-- a filter on the runs reaches their keys.
CREATE VIEW run_pair AS
SELECT
  m.run_a_id AS run_a_id, m.run_b_id AS run_b_id, m.run_a AS run_a, m.run_b AS run_b,
  m.prompt_id AS prompt_id, m.prompt AS prompt, m.reason AS reason,
  CASE WHEN m.prompt_id IS NOT NULL THEN CASE m.reason WHEN 'other tokens' THEN 'other tokens in prompt ' || m.prompt END
    ELSE (SELECT CASE WHEN x.dim IN ('model_root', 'model_sha256') THEN 'another model'
        ELSE 'traced otherwise: ' || x.dim || ' ' || x.value || ', not ' || y.value END
     FROM attribute x JOIN attribute y ON y.run_id = m.run_b_id AND y.dim = x.dim
     WHERE x.run_id = m.run_a_id
       AND x.dim IN ('model_root', 'model_sha256', 'trace.layers', 'trace.tensors', 'trace.phases')
       AND y.value <> x.value
       AND NOT (x.dim = 'model_sha256' AND EXISTS (
         SELECT 1 FROM attribute p JOIN attribute q ON q.run_id = m.run_b_id AND q.dim = 'model_root'
         WHERE p.run_id = m.run_a_id AND p.dim = 'model_root'))
     ORDER BY x.dim LIMIT 1) END AS why_not
FROM (
  SELECT
    a.id AS run_a_id, b.id AS run_b_id, a.name AS run_a, b.name AS run_b, k.column1 AS part, p.id AS prompt_id, p.name AS prompt,
    CASE
      WHEN NOT EXISTS (
        SELECT 1 FROM prompt q WHERE q.run_id = CASE k.column1 WHEN 1 THEN b.id ELSE a.id END AND q.name = p.name) THEN
        CASE WHEN EXISTS (SELECT 1 FROM traced_position t WHERE t.run_id = p.run_id AND t.prompt_id = p.id) THEN
          CASE k.column1 WHEN 1 THEN 'only in run a' ELSE 'only in run b' END END
      WHEN k.column1 = 1 AND EXISTS (
        SELECT 1 FROM prompt q WHERE q.run_id = b.id AND q.name = p.name
          AND (p.token_ids <> q.token_ids OR p.text_sha256 <> q.text_sha256 OR p.n_tokens <> q.n_tokens)) THEN 'other tokens'
    END AS reason
  FROM run a
  CROSS JOIN run b
  CROSS JOIN (VALUES (0), (1), (2)) k  -- the runs; prompts of a; of b
  LEFT JOIN prompt p ON p.run_id = CASE k.column1 WHEN 1 THEN a.id WHEN 2 THEN b.id END
  WHERE a.id <> b.id) m
WHERE m.part = 0 OR m.reason IS NOT NULL;
