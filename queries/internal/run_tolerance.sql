-- Relative L2 up to which a difference of a trace point of a run is rounding, where nothing less was
-- measured (run_noise): the most specific row of `tolerance`, the least of several. Beyond 1, as far
-- as a row of zeros is from any other, is none. Filter on both.
CREATE VIEW run_tolerance AS
SELECT
  r.id AS run_id, t.id AS tensor_id,
  (SELECT o.rel_l2 FROM (
     -- SQLite takes rel_l2 from the row that has the minimum; no rel_l2 is above 1
     SELECT o.rel_l2 AS rel_l2, min(4 * (o.tensor_id IS NULL) + 2 * (o.dtype IS NULL) + o.rel_l2)
     FROM tolerance o
     WHERE (o.tensor_id = t.id OR o.tensor_id IS NULL) AND (o.dtype = r.dtype OR o.dtype IS NULL)
       AND o.rel_l2 <= 1) o) AS rel_l2
FROM run r
JOIN tensor t;
