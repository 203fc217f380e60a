-- One row per comparison of two runs that both hold, or only run_a: where values first part ways and where
-- that spreads, as view propagation has it of the phases of one run. Name both: WHERE run_a = '...' AND
-- run_b = '...'. What counts before what is forward_layer, then the tensor, then the position.
CREATE VIEW diff_propagation AS
SELECT
  s.run AS run_a,                                      -- run.name
  s.other_run AS run_b,                                -- run.name
  q.name AS prompt,                                    -- prompt of both runs
  h.name AS phase,                                     -- prefill_last, prefill, decode0, decode
  nullif(s.pos_id, -1) AS pos_id,                      -- absolute 0-based position; NULL unknown
  s.layer AS layer,                                    -- -1: after the stack, in old files
  t.name AS tensor,                                    -- canonical
  CASE s.status WHEN 'ALONE' THEN 'ONLY_A' ELSE s.status END AS status, -- see run_diff
  s.class AS class,                                    -- ROUNDING, DIVERGENT, UNKNOWN
  s.rel_l2 AS rel_l2,                                  -- relative L2 distance
  CASE WHEN s.fails THEN (SELECT k.origin FROM origin k WHERE k.worst_input = ifnull(s.worst_input, 0) AND k.unsampled = ifnull(s.unsampled, 1)) END AS origin,                                  -- ORIGIN, PROPAGATED, UNSAMPLED; NULL for what does not differ
  CASE WHEN s.fails THEN (SELECT k.numeric_origin FROM origin k WHERE k.worst_input = ifnull(s.worst_input, 0) AND k.unsampled = ifnull(s.unsampled, 1)) END AS numeric_origin,                  -- as origin, rounding inputs counting as clean
  CASE WHEN s.fails THEN s.caused_by END AS caused_by, -- nearest input traced in both runs that differs, the earliest: tensor@layer
  CASE WHEN s.fails THEN s.segment END AS segment,     -- of what differs: from the earliest traced input to here
  CASE WHEN s.fails THEN s.untraced_layers END AS untraced_layers, -- where origin is UNSAMPLED: the layers in between, as --layers takes them
  s.forward_layer AS forward_layer,                    -- forward order: this, then the tensor, then the position
  s.run_id AS run_a_id,                                -- run.id
  s.other_run_id AS run_b_id                           -- run.id
FROM comparison_origin s
JOIN prompt q ON q.id = s.key_prompt_id
JOIN phase h ON h.id = s.phase_id
JOIN tensor t ON t.id = s.key_tensor_id
WHERE s.other_run_id <> s.run_id;
