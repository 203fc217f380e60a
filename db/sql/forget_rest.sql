-- Deletes what is left of the runs in temp.forgotten, whose rows, facts and sources are gone by now.

DELETE FROM run_change WHERE baseline_id IN (SELECT id FROM temp.forgotten);
DELETE FROM waiver WHERE run IN (SELECT name FROM temp.forgotten WHERE NOT stays);
DELETE FROM run WHERE id IN (SELECT id FROM temp.forgotten WHERE NOT stays);
UPDATE run SET status = 'unknown', started_at = NULL, finished_at = NULL
  WHERE id IN (SELECT id FROM temp.forgotten);
REPLACE INTO lineage_member
  SELECT l.* FROM run_lineage l WHERE l.run_id IN (SELECT id FROM temp.forgotten);

-- Parts that the rows referred to: for each table that may lose some, one pass over the rows that stay.
DELETE FROM sample WHERE id IN (
  SELECT id FROM temp.forgotten_part WHERE of = 'sample'
  EXCEPT
  SELECT sample_id FROM trace_row WHERE EXISTS (SELECT 1 FROM temp.forgotten_part WHERE of = 'sample'));
DELETE FROM sketch WHERE id IN (
  SELECT id FROM temp.forgotten_part WHERE of = 'sketch'
  EXCEPT
  SELECT sketch_id FROM trace_row WHERE EXISTS (SELECT 1 FROM temp.forgotten_part WHERE of = 'sketch'));
DELETE FROM row_context WHERE id IN (
  SELECT id FROM temp.forgotten_part WHERE of = 'context'
  EXCEPT
  SELECT context_id FROM trace_row WHERE EXISTS (SELECT 1 FROM temp.forgotten_part WHERE of = 'context'));

-- Trace points that only these runs brought, so that others may bring as many.
DELETE FROM temp.forgotten_part WHERE of = 'tensor' AND (
  id IN (SELECT tensor_id FROM trace_row) OR id IN (SELECT tensor_id FROM plan)
  OR id IN (SELECT tensor_id FROM difference) OR id IN (SELECT tensor_id FROM noise_floor)
  OR EXISTS (SELECT 1 FROM tolerance x WHERE x.tensor_id = forgotten_part.id)
  OR EXISTS (SELECT 1 FROM edge x WHERE forgotten_part.id IN (x.to_id, x.from_id))
  OR EXISTS (SELECT 1 FROM tensor x WHERE x.switch_on = forgotten_part.id)
  OR id IN (SELECT k.tensor_id FROM readout x JOIN tensor_name k ON k.id = x.name_id)
  OR EXISTS (SELECT 1 FROM report_pair x JOIN tensor_name k ON k.id = x.name_id WHERE k.tensor_id = forgotten_part.id));
DELETE FROM tensor_name WHERE tensor_id IN (SELECT id FROM temp.forgotten_part WHERE of = 'tensor');
DELETE FROM tensor WHERE id IN (SELECT id FROM temp.forgotten_part WHERE of = 'tensor');

DELETE FROM meta WHERE key GLOB 'unsettled/*' AND substr(key, 11) NOT IN (SELECT experiment FROM run);
DELETE FROM meta WHERE key GLOB 'writer/*' AND substr(key, 8) NOT IN (SELECT CAST(id AS TEXT) FROM run);
