-- Maps runs by name. A run that an engine, a pipe or a file of rows began is that of its one source: a run of that name
-- with another such source is another run. Runs without an id are to be added.
INSERT INTO main.meta(key, value) VALUES ('merge', '') ON CONFLICT DO NOTHING;
DELETE FROM main.meta WHERE key = 'merge';
INSERT INTO temp.merge_run(other_id, id)
  SELECT o.id, coalesce(
    (SELECT x.run_id FROM other.source s JOIN main.source x ON x.sha256 = s.sha256
     WHERE s.run_id = o.id AND s.shape IN ('engine', 'row') AND x.shape = s.shape AND s.sha256 <> 'being read'),
    (SELECT r.id FROM main.run r WHERE r.name = o.name AND NOT (
       EXISTS (SELECT 1 FROM other.source s WHERE s.run_id = o.id AND s.shape IN ('engine', 'row'))
       AND EXISTS (SELECT 1 FROM main.source x WHERE x.run_id = r.id AND x.shape IN ('engine', 'row')))))
  FROM other.run o;
UPDATE temp.merge_run SET is_new = id IS NULL;
