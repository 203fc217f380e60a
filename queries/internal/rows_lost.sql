-- How many trace rows are fewer than a run says it wrote (attribute trace_rows). Rows that came again
-- with the same content count where one source has all rows: of two, one may be a copy of the other.
-- Rows that only a document states were not written by the run.
CREATE VIEW rows_lost AS
SELECT
  r.id AS run_id,
  (SELECT max(CAST(a.value AS INTEGER)) FROM attribute a
   WHERE a.run_id = r.id AND a.dim = 'trace_rows')
    - (SELECT count(*) FROM trace_row x WHERE x.run_id = r.id AND (x.flags & 8) = 0)
    - CASE WHEN (SELECT count(*) FROM source s WHERE s.run_id = r.id AND s.rows > 0) > 1 THEN 0
      ELSE (SELECT ifnull(sum(x.count), 0) FROM trace_repeat x WHERE x.run_id = r.id) END AS count
FROM run r
WHERE EXISTS (SELECT 1 FROM attribute a WHERE a.run_id = r.id AND a.dim = 'trace_rows');
