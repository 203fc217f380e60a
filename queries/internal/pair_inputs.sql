-- What feeds a pair in the data flow. worst_input tells the state of its nearest traced ancestors:
-- the walk goes up through trace points that have no pair and stops at the first that have. States:
-- NULL none traced, 1 all match, 2 some differ by rounding only, 3 some cannot be compared, 4 some
-- differ by more. It packs the worst ancestor, the earliest of these:
-- state * 2^40 + (2^20 - 2 - layer) * 2^16 + 2^16 - 1 - tensor_id. Filter on the whole key.
CREATE VIEW pair_inputs AS
SELECT
  s.run_id AS run_id, s.prompt_id AS prompt_id, s.pos_id AS pos_id, s.layer AS layer,
  s.tensor_id AS tensor_id, s.token_id AS token_id, s.logical_tok_idx AS logical_tok_idx,
  (WITH RECURSIVE up(layer, tensor_id) AS (
      SELECT CASE e.layer WHEN 'same' THEN s.layer WHEN 'previous' THEN s.layer - 1 ELSE s.last_layer END, e.from_id
      FROM edge e WHERE e.to_id = s.tensor_id
      UNION
      SELECT CASE e.layer WHEN 'same' THEN u.layer WHEN 'previous' THEN u.layer - 1 ELSE s.last_layer END, e.from_id
      FROM up u JOIN edge e ON e.to_id = u.tensor_id
      WHERE u.layer >= -1 AND NOT EXISTS (SELECT 1 FROM traced_both b
         WHERE b.run_id = s.run_id AND b.prompt_id = s.prompt_id AND b.pos_id = s.pos_id
           AND b.layer = u.layer AND b.tensor_id = u.tensor_id))
    SELECT max(CASE
        WHEN i.status = 'MATCH' THEN 1
        WHEN i.status = 'INCOMPARABLE' THEN 3
        WHEN i.status = 'DRIFT' AND i.rel_l2 <= i.tolerance THEN 2
        ELSE 4 END * 1099511627776 + (1048574 - i.layer) * 65536 + 65535 - i.tensor_id)
    FROM up u JOIN pair_status i
      ON i.run_id = s.run_id AND i.prompt_id = s.prompt_id AND i.pos_id = s.pos_id
     AND i.layer = u.layer AND i.tensor_id = u.tensor_id) AS worst_input,
  EXISTS (
    SELECT 1 FROM edge e WHERE e.to_id = s.tensor_id AND e.kind = 'copy'
       AND EXISTS (SELECT 1 FROM traced_both b
         WHERE b.run_id = s.run_id AND b.prompt_id = s.prompt_id AND b.pos_id = s.pos_id
           AND b.layer = CASE e.layer WHEN 'same' THEN s.layer WHEN 'previous' THEN s.layer - 1 ELSE s.last_layer END AND b.tensor_id = e.from_id))
  OR (
    EXISTS (
      SELECT 1 FROM edge e WHERE e.to_id = s.tensor_id
       AND EXISTS (SELECT 1 FROM traced_both b
         WHERE b.run_id = s.run_id AND b.prompt_id = s.prompt_id AND b.pos_id = s.pos_id
           AND b.layer = CASE e.layer WHEN 'same' THEN s.layer WHEN 'previous' THEN s.layer - 1 ELSE s.last_layer END AND b.tensor_id = e.from_id))
    AND NOT EXISTS (
      SELECT 1 FROM edge e WHERE e.to_id = s.tensor_id AND e.kind = 'input'
       AND NOT EXISTS (SELECT 1 FROM traced_both b
         WHERE b.run_id = s.run_id AND b.prompt_id = s.prompt_id AND b.pos_id = s.pos_id
           AND b.layer = CASE e.layer WHEN 'same' THEN s.layer WHEN 'previous' THEN s.layer - 1 ELSE s.last_layer END AND b.tensor_id = e.from_id))
  ) AS inputs_complete
FROM pair_joined s;
