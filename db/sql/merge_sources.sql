-- Maps sources of mapped runs, and adds those that are not here. An engine that has written on since it was last
-- merged is new from the row on that it had reached. A source that was forgotten in part there and is whole here is
-- known.
INSERT INTO temp.merge_source
  SELECT s.id, x.id, x.id IS NULL OR (s.shape = 'engine' AND s.rows > x.rows), ifnull(x.rows, 0)
  FROM other.source s JOIN temp.merge_run m ON m.other_id = s.run_id
  LEFT JOIN main.source x ON x.run_id = m.id AND x.leg = s.leg AND x.prompt = s.prompt
    AND x.sha256 IN (s.sha256, replace(s.sha256, 'forgotten in part: ', ''));
UPDATE main.source SET (lines, rows) = (SELECT s.lines, s.rows
    FROM temp.merge_source n JOIN other.source s ON s.id = n.other_id WHERE n.id = source.id)
  WHERE id IN (SELECT id FROM temp.merge_source WHERE is_new);
INSERT INTO main.source(run_id, leg, prompt, sha256, shape, bytes, lines, rows)
  SELECT m.id, s.leg, s.prompt, s.sha256, s.shape, s.bytes, s.lines, s.rows
  FROM other.source s JOIN temp.merge_source n ON n.other_id = s.id AND n.id IS NULL
  JOIN temp.merge_run m ON m.other_id = s.run_id ORDER BY s.id;
UPDATE temp.merge_source SET id = (
  SELECT x.id FROM other.source s JOIN temp.merge_run m ON m.other_id = s.run_id
  JOIN main.source x ON x.run_id = m.id AND x.leg = s.leg AND x.prompt = s.prompt
    AND x.sha256 = s.sha256
  WHERE s.id = merge_source.other_id) WHERE id IS NULL;
INSERT OR IGNORE INTO main.source_location
  SELECT m.id, l.path, l.raw_sha256, l.raw_bytes
  FROM other.source_location l JOIN temp.merge_source m ON m.other_id = l.source_id;
UPDATE temp.merge_run SET
  has_new = EXISTS (SELECT 1 FROM other.source s JOIN temp.merge_source n ON n.other_id = s.id
                    WHERE s.run_id = merge_run.other_id AND n.is_new),
  overlaps = EXISTS (SELECT 1 FROM other.source s JOIN temp.merge_source n ON n.other_id = s.id
                     WHERE s.run_id = merge_run.other_id AND NOT n.is_new);
