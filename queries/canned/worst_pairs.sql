-- Pairs of a run that lie furthest apart, by relative L2 distance.
-- :run   a run
-- :limit (20) rows to show
SELECT p.prompt, p.pos_id, p.layer, p.tensor, p.status, p.class, p.rel_l2, p.tolerance, p.origin,
       p.numeric_origin, p.segment, p.caused_by, p.cause
FROM pair p
WHERE p.run = :run AND p.rel_l2 > 0
ORDER BY p.rel_l2 DESC, p.prompt_id, p.pos_id, p.layer, p.tensor_id
LIMIT :limit;
