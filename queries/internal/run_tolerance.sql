-- Relative L2 up to which a difference of a trace point of a run is rounding, where nothing less was
-- measured (run_noise): the most specific row of `tolerance`, the least of several. Beyond 1, as far
-- as a row of zeros is from any other, is none. Filter on both.
CREATE VIEW run_tolerance AS
SELECT
  r.id AS run_id, t.id AS tensor_id,
  (SELECT o.rel_l2 FROM tolerance o
   WHERE (o.tensor_id = t.id OR o.tensor_id IS NULL) AND (o.dtype = r.dtype OR o.dtype IS NULL)
     AND o.rel_l2 <= 1
   ORDER BY o.tensor_id IS NULL, o.dtype IS NULL, o.rel_l2 LIMIT 1) AS rel_l2
FROM run r
JOIN tensor t;
