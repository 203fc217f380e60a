-- One row per prompt, layer and position of attention where something had to pair and nothing of Q,
-- K, V, the cache or the scores did: a layer that one side lost altogether.
CREATE VIEW kv_lost AS
SELECT
  r.name AS run, r.id AS run_id, r.mode AS mode, x.prompt_id AS prompt_id, x.layer AS layer,
  x.pos_id AS pos_id
FROM run r
JOIN trace_row x ON x.run_id = r.id AND x.side IN (0, 1) AND +x.pos_id >= 0
WHERE x.tensor_id IN (42, 50, 51, 55, 56, 60, 61)
  AND EXISTS (
    SELECT 1 FROM trace_row p
    WHERE p.run_id = x.run_id AND p.prompt_id = x.prompt_id AND p.side = 0 AND p.pos_id = x.pos_id
      AND p.phase_id = (SELECT id FROM phase WHERE name = 'prefill_last'))
  AND NOT EXISTS (
    SELECT 1 FROM traced_both b
    WHERE b.run_id = x.run_id AND b.prompt_id = x.prompt_id AND b.pos_id = x.pos_id
      AND b.layer = x.layer AND b.tensor_id IN (42, 50, 51, 55, 56, 60, 61))
GROUP BY r.name, r.id, r.mode, x.prompt_id, x.layer, x.pos_id;
