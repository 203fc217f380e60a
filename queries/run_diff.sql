-- One row per prompt, phase, position, layer and trace point of two runs: does run_b compute what
-- run_a computed? Name both runs: WHERE run_a = '...' AND run_b = '...'. What only one run has shows
-- as ONLY_A or ONLY_B. As in `pair`, step and the name written are no part of the comparison (where
-- the position is unknown, step stands in for it), and rows that repeat are one.
CREATE VIEW run_diff AS
SELECT
  a.name AS run_a,                                     -- run.name
  b.name AS run_b,                                     -- run.name
  q.name AS prompt,                                    -- prompt of both runs
  h.name AS phase,                                     -- prefill_last, prefill, decode0, decode
  nullif(s.pos_id, -1) AS pos_id,                      -- absolute 0-based position; NULL unknown
  s.layer AS layer,                                    -- -1: after the stack, in old files
  t.name AS tensor,                                    -- canonical
  CASE WHEN s.status <> 'ALONE' THEN s.status WHEN d.column1 THEN 'ONLY_B' ELSE 'ONLY_A' END AS status, -- MATCH, DRIFT, NONFINITE, AMBIGUOUS, CONFLICT, INCOMPARABLE (also another token), ONLY_A, ONLY_B
  s.class AS class,                                    -- of a DRIFT: ROUNDING, EXPLAINED, DIVERGENT, UNKNOWN, by the tolerance of the coarser arithmetic of the two
  s.rel_l2 AS rel_l2,                                  -- estimated relative L2 distance, NULL when there is nothing to measure with
  CASE WHEN s.x_hash IS NOT NULL AND NOT d.column1 THEN printf('%llu', s.x_hash) END AS hash_a, -- unsigned decimal
  CASE WHEN d.column1 AND s.x_hash IS NOT NULL THEN printf('%llu', s.x_hash)
    WHEN s.y_hash IS NOT NULL THEN printf('%llu', s.y_hash) END AS hash_b, -- unsigned decimal
  a.experiment AS experiment,                          -- of run_a: literal directory
  a.mode AS mode,                                      -- of run_a: as_designed, kv_aligned, batch_invariant; NULL unknown
  a.commit_sha AS commit_sha,                          -- of run_a
  a.date AS date,                                      -- of run_a: YYYY-MM-DD; NULL unknown
  s.forward_layer AS forward_layer,                    -- forward order: this, then tensor_id, then the position
  a.id AS run_a_id,                                    -- run.id
  b.id AS run_b_id,                                    -- run.id
  s.tensor_id AS tensor_id,                            -- tensor.id
  s.measure AS measure,                                -- what rel_l2 comes from: sample or sketch (estimates), hash (equal)
  s.tolerance AS tolerance,                            -- rel_l2 up to which a DRIFT is ROUNDING
  s.scope AS scope,                                    -- full, prefix, sample; tensor: rows that cover a whole tensor
  s.origin AS origin,                                  -- ORIGIN, PROPAGATED, UNSAMPLED; NULL for what does not differ
  s.numeric_origin AS numeric_origin,                  -- as origin, inputs counting as clean that differ by less than an eighth of it
  s.caused_by AS caused_by,                            -- nearest input traced in both runs that differs, the earliest: tensor@layer
  s.segment AS segment,                                -- of what differs: from the earliest traced input to here
  s.untraced_layers AS untraced_layers                 -- where origin is UNSAMPLED: the layers in between, as --layers takes them
FROM run a
CROSS JOIN run b
CROSS JOIN (VALUES (0), (1)) d  -- 1: rows that only run b has, seen from it
CROSS JOIN comparison_origin s ON s.run_id = CASE WHEN d.column1 THEN b.id ELSE a.id END
  AND s.other_run_id = CASE WHEN d.column1 THEN a.id ELSE b.id END AND (NOT d.column1 OR s.alone)
CROSS JOIN prompt q ON q.id = s.key_prompt_id
CROSS JOIN phase h ON h.id = s.phase_id
CROSS JOIN tensor t ON t.id = s.key_tensor_id
WHERE a.id <> b.id;
