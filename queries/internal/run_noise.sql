-- What rounding may amount to at a place of a run, by what was measured of its model: four times what
-- 99.9 % of clean pairs have, of their own and for what comes in (gain). What was measured with one type of the KV
-- cache is of no other: noise_floor.dtype ends as the lineage does. Filter on all three.
CREATE VIEW run_noise AS
SELECT
  r.id AS run_id, f.tensor_id AS tensor_id, f.layer AS layer, 4 * f.rel_l2 AS rel_l2, 4 * f.gain AS gain
FROM run r
JOIN noise_floor f ON f.dtype = r.dtype || (
  SELECT substr(m.lineage, instr(m.lineage || '/kv_cache=', '/kv_cache=')) FROM lineage_member m WHERE m.run_id = r.id)
WHERE EXISTS (SELECT 1 FROM attribute a WHERE a.run_id = r.id AND a.dim IN ('model_root', 'model_sha256') AND a.value = f.model_sha256)
  AND EXISTS (SELECT 1 FROM attribute a WHERE a.run_id = r.id AND a.dim = 'backend' AND a.value = f.backend);
