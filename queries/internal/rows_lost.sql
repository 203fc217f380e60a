-- How many trace rows are fewer than a run says it wrote (attribute trace_rows). Rows that came again
-- with the same content count.
CREATE VIEW rows_lost AS
SELECT
  r.id AS run_id,
  (SELECT max(CAST(a.value AS INTEGER)) FROM attribute a
   WHERE a.run_id = r.id AND a.dim = 'trace_rows')
    - (SELECT count(*) FROM trace_row x WHERE x.run_id = r.id)
    - (SELECT ifnull(sum(x.count), 0) FROM trace_repeat x WHERE x.run_id = r.id) AS count
FROM run r
WHERE EXISTS (SELECT 1 FROM attribute a WHERE a.run_id = r.id AND a.dim = 'trace_rows');
