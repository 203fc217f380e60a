-- Relative L2 up to which a difference of a trace point of a run is rounding, where nothing less was
-- measured (noise_floor): the most specific row of `tolerance`, the least of several. A tolerance beyond 1, the
-- distance of a row of zeros from any other, counts as none. A dtype that no row of `tolerance` knows has none. Filter
-- on both.
CREATE VIEW run_tolerance AS
SELECT
  r.id AS run_id, t.id AS tensor_id,
  coalesce(
    (SELECT min(o.rel_l2) FROM tolerance o WHERE o.tensor_id = t.id AND o.dtype = r.dtype AND o.rel_l2 <= 1),
    (SELECT min(o.rel_l2) FROM tolerance o WHERE o.tensor_id = t.id AND o.dtype IS NULL AND o.rel_l2 <= 1),
    (SELECT min(o.rel_l2) FROM tolerance o WHERE o.tensor_id IS NULL AND o.dtype = r.dtype AND o.rel_l2 <= 1),
    (SELECT min(o.rel_l2) FROM tolerance o WHERE o.tensor_id IS NULL AND o.dtype IS NULL AND o.rel_l2 <= 1
       AND (r.dtype IS NULL OR EXISTS (SELECT 1 FROM tolerance k WHERE k.dtype = r.dtype)))) AS rel_l2
FROM run r
JOIN tensor t;
