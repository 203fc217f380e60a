-- Every two runs that are not one, and why rows of the one cannot be held against rows of the other; NULL when they can:
-- another model, another choice of what to trace, other tokens in one. What a run does not say is no
-- reason. A model is told by its root where both runs say it, else by the SHA-256 of its file. Name both.
CREATE VIEW run_pair AS
SELECT
  a.id AS run_a_id, b.id AS run_b_id, a.name AS run_a, b.name AS run_b,
  coalesce(
    (SELECT CASE WHEN x.dim IN ('model_root', 'model_sha256') THEN 'another model'
        ELSE 'traced otherwise: ' || x.dim || ' ' || x.value || ', not ' || y.value END
     FROM attribute x JOIN attribute y ON y.run_id = b.id AND y.dim = x.dim
     WHERE x.run_id = a.id
       AND x.dim IN ('model_root', 'model_sha256', 'trace.layers', 'trace.tensors', 'trace.phases')
       AND y.value <> x.value
       AND NOT (x.dim = 'model_sha256' AND EXISTS (
         SELECT 1 FROM attribute p JOIN attribute q ON q.run_id = b.id AND q.dim = 'model_root'
         WHERE p.run_id = a.id AND p.dim = 'model_root'))
     ORDER BY x.dim LIMIT 1),
    (SELECT 'other tokens in prompt ' || p.name
     FROM prompt p JOIN prompt q ON q.run_id = b.id AND q.name = p.name
     WHERE p.run_id = a.id
       AND (p.token_ids <> q.token_ids OR p.text_sha256 <> q.text_sha256 OR p.n_tokens <> q.n_tokens)
     ORDER BY p.id LIMIT 1)) AS why_not
FROM run a
CROSS JOIN run b
WHERE a.id <> b.id;
