-- Sources and parts that go with the runs in temp.forgotten(id, name, stays).

-- Directory levels that are left without a run.
INSERT INTO temp.forgotten
  SELECT r.id, r.name, 0 FROM directory_level l JOIN run r ON r.id = l.run_id
  WHERE EXISTS (SELECT 1 FROM temp.forgotten f WHERE f.name > r.name || '/' AND f.name < r.name || '0')
    AND NOT EXISTS (
      SELECT 1 FROM run c
      WHERE c.name > r.name || '/' AND c.name < r.name || '0'
        AND c.id NOT IN (SELECT id FROM temp.forgotten)
        AND NOT EXISTS (SELECT 1 FROM directory_level d WHERE d.run_id = c.id))
  ORDER BY r.id;

-- A run that has others below it stays as their level.
UPDATE temp.forgotten AS r SET stays = EXISTS (
  SELECT 1 FROM run c
  WHERE c.name > r.name || '/' AND c.name < r.name || '0' AND c.id NOT IN (SELECT id FROM temp.forgotten));

-- A run that stays as a level keeps the sources that only describe it.
INSERT INTO temp.forgotten_source
  SELECT s.id FROM temp.forgotten f JOIN source s ON s.run_id = f.id
  WHERE NOT f.stays OR s.rows > 0
    OR EXISTS (SELECT 1 FROM report x WHERE x.source_id = s.id)
    OR EXISTS (SELECT 1 FROM report_pair x WHERE x.source_id = s.id)
    OR EXISTS (SELECT 1 FROM run_event x WHERE x.source_id = s.id)
    OR EXISTS (SELECT 1 FROM log_event x WHERE x.source_id = s.id)
    OR EXISTS (SELECT 1 FROM readout x WHERE x.run_id = s.run_id AND x.source_id = s.id);

-- Parts that the rows refer to: they go unless other rows refer to them. Trace points that greta knows stay.
INSERT OR IGNORE INTO temp.forgotten_part
  SELECT 'sample', sample_id FROM temp.forgotten f CROSS JOIN trace_row t ON t.run_id = f.id
  WHERE sample_id IS NOT NULL;
INSERT OR IGNORE INTO temp.forgotten_part
  SELECT 'sketch', sketch_id FROM temp.forgotten f CROSS JOIN trace_row t ON t.run_id = f.id
  WHERE sketch_id IS NOT NULL;
INSERT OR IGNORE INTO temp.forgotten_part
  SELECT 'context', context_id FROM temp.forgotten f CROSS JOIN trace_row t ON t.run_id = f.id
  WHERE context_id IS NOT NULL;
INSERT OR IGNORE INTO temp.forgotten_part
  SELECT 'tensor', tensor_id FROM temp.forgotten f CROSS JOIN trace_row t ON t.run_id = f.id
  WHERE tensor_id IN (SELECT id FROM tensor WHERE stage = 'unknown');

-- Sources that stay and lose what they state of these runs are marked, so that they are read again.
UPDATE source SET sha256 = 'forgotten in part: ' || sha256
  WHERE instr(sha256, 'forgotten in part: ') <> 1
    AND id NOT IN (SELECT id FROM temp.forgotten_source)
    AND id IN (
      SELECT x.source_id FROM temp.forgotten f JOIN run_metric x ON x.run_id = f.id WHERE NOT f.stays
      UNION ALL
      SELECT x.source_id FROM temp.forgotten f JOIN report_claim x ON x.run_id = f.id WHERE NOT f.stays);

-- Errors of no source that speak of these runs alone, and of archives that nothing is left of.
DELETE FROM ingest_error WHERE source_id IS NULL AND about IS NOT NULL
  AND EXISTS (
    SELECT 1 FROM temp.forgotten f
    WHERE NOT f.stays AND (f.name = about
      OR (about > f.name || '/' AND about < f.name || '0')
      OR (f.name > about || '/' AND f.name < about || '0')))
  AND NOT EXISTS (
    SELECT 1 FROM run r
    WHERE (r.name = about OR (r.name > about || '/' AND r.name < about || '0'))
      AND r.id NOT IN (SELECT id FROM temp.forgotten WHERE NOT stays));
DELETE FROM ingest_error WHERE source_id IS NULL AND about IS NULL
  AND substr(file, 1, instr(file || '!', '!') - 1) IN (
    SELECT substr(l.path, 1, instr(l.path, '!') - 1) FROM source_location l
    WHERE instr(l.path, '!') > 0
    GROUP BY 1 HAVING min(l.source_id IN (SELECT id FROM temp.forgotten_source)));
