-- Where the values of a run first part ways, and where that spreads to, in forward order.
-- :run a run
SELECT p.prompt, p.pos_id, p.layer, p.tensor, p.status, p.class, p.origin, p.caused_by,
       p.inputs_complete, p.rel_l2
FROM propagation p
WHERE p.run = :run AND p.origin IS NOT NULL;
