-- How much of a run drifts, layer by layer and trace point by trace point, and how far.
-- :run a run
SELECT p.layer, p.canonical_tensor AS tensor, count(*) AS pairs,
       sum(p.status = 'MATCH') AS match, sum(p.class IS 'ROUNDING') AS rounding,
       sum(p.class IS 'EXPLAINED') AS explained,
       sum(p.class IS 'DIVERGENT') AS divergent, sum(p.class IS 'UNKNOWN') AS unknown,
       sum(p.status IN ('NONFINITE', 'AMBIGUOUS', 'CONFLICT')) AS broken,
       max(p.rel_l2) AS max_rel_l2, avg(p.rel_l2) AS avg_rel_l2
FROM pair p
WHERE p.run = :run
  AND p.status NOT IN ('MISSING', 'DECODE_ONLY')
GROUP BY p.layer, p.tensor_id, p.canonical_tensor
ORDER BY p.layer < 0, p.layer, p.tensor_id;
