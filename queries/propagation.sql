-- One row per comparison in forward order: where values first part ways and where that spreads.
CREATE VIEW propagation AS
SELECT
  p.run AS run,                                        -- run.name
  p.prompt AS prompt,                                  -- prompt of the run
  p.layer AS layer,                                    -- -1: after the stack, in old files
  p.tensor AS tensor,                                  -- as the prefill row names it
  p.status AS status,                                  -- see pair
  p.origin AS origin,                                  -- ORIGIN, PROPAGATED, UNSAMPLED; NULL for what did not fail
  p.caused_by AS caused_by,                            -- nearest traced input that differs: tensor@layer
  p.pos_id AS pos_id,                                  -- absolute 0-based position
  p.class AS class,                                    -- ROUNDING, EXPLAINED, DIVERGENT, UNKNOWN
  p.inputs_complete AS inputs_complete,                -- 0: the origin may lie in a tensor or layer that was not traced
  p.rel_l2 AS rel_l2,                                  -- relative L2 distance
  p.forward_layer AS forward_layer,                    -- forward order: this, then the tensor
  p.run_id AS run_id                                   -- run.id
FROM pair p
ORDER BY p.run, p.prompt, CASE p.evidence WHEN 'trace' THEN p.pos_id END, p.forward_layer,
         p.tensor_id IS NULL, (SELECT k.ord FROM tensor k WHERE k.id = p.tensor_id), p.tensor;
