-- The hash of a run's row at a place, by names. Filter on all of them.
CREATE VIEW place_value AS
SELECT
  q.run_id AS run_id, q.name AS prompt, h.name AS phase, x.pos_id AS pos_id, x.layer AS layer, t.name AS tensor,
  x.n AS n, x.hash AS hash
FROM phase h
CROSS JOIN tensor t
CROSS JOIN prompt q
CROSS JOIN trace_row x ON x.run_id = q.run_id AND x.prompt_id = q.id AND x.side = h.side AND x.tensor_id = t.id
  AND x.phase_id = h.id;
