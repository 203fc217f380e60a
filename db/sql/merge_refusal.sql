-- Why two files cannot be merged: at most one row, which begins with a name in the other file.
SELECT * FROM (
  -- Hashes of two algorithms never compare.
  SELECT 'run ' || r.name || ' is hashed by ' || o.hash_algo || ' there and by ' || r.hash_algo ||
         ' here, which never compare: rename the run in one of the files'
  FROM temp.merge_run m JOIN main.run r ON r.id = m.id JOIN other.run o ON o.id = m.other_id
  WHERE NOT m.is_new AND r.hash_algo <> o.hash_algo
    AND EXISTS (SELECT 1 FROM main.trace_row t WHERE t.run_id = r.id)
    AND EXISTS (SELECT 1 FROM other.trace_row t WHERE t.run_id = o.id)
  UNION ALL
  SELECT 'source ' || ifnull((SELECT min(path) FROM other.source_location WHERE source_id = s.id), '') || ' of run ' ||
         r.name || ' has ' || s.rows || ' trace rows there and ' || x.rows ||
         ' here: ingest it anew in the file that has fewer, then merge'
  FROM temp.merge_source m
  JOIN other.source s ON s.id = m.other_id
  JOIN main.source x ON x.id = m.id
  JOIN main.run r ON r.id = x.run_id
  WHERE NOT m.is_new AND s.rows <> x.rows AND s.shape <> 'engine')
LIMIT 1;
