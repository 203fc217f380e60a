-- How many trace rows are fewer than a run says it wrote (attribute trace_rows). What an engine itself
-- wrote twice counts twice. A row that came again in a file does not, for that may be a copy, nor one
-- that only a document states.
CREATE VIEW rows_lost AS
SELECT
  r.id AS run_id,
  (SELECT max(CAST(a.value AS INTEGER)) FROM attribute a
   WHERE a.run_id = r.id AND a.dim = 'trace_rows')
    - (SELECT count(*) FROM trace_row x WHERE x.run_id = r.id AND (x.flags & 8) = 0)
    - (SELECT ifnull(sum(s.duplicates), 0) FROM source s WHERE s.run_id = r.id AND s.shape = 'engine') AS count
FROM run r
WHERE EXISTS (SELECT 1 FROM attribute a WHERE a.run_id = r.id AND a.dim = 'trace_rows');
