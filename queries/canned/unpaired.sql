-- What a run traced on one side only: rows with no partner at their position.
-- :run a run
SELECT p.status, p.prompt, p.pos_id, p.canonical_tensor AS tensor, count(*) AS traced,
       min(p.layer) AS first_layer, max(p.layer) AS last_layer, min(p.details) AS details
FROM pair p
WHERE p.run = :run AND p.status IN ('MISSING', 'DECODE_ONLY')
GROUP BY p.status, p.prompt_id, p.prompt, p.pos_id, p.tensor_id, p.canonical_tensor
ORDER BY p.status DESC, p.prompt_id, p.pos_id, p.tensor_id;
