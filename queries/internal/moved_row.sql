-- Rows (of `side` at `pos_id`) that differ from their partner and are a row of the position before or
-- after: `of_side` says whose, of_tensor_id that of the same trace point, or of the one that it is a copy
-- of. Not where the tokens are the same, nor of a row of one value. Filter on all but those. (+ as in
-- traced_pair.)
CREATE VIEW moved_row AS
SELECT
  w.run_id AS run_id, w.prompt_id AS prompt_id, w.layer AS layer, w.tensor_id AS tensor_id,
  w.side AS side, w.pos_id AS pos_id, o.side AS of_side, o.pos_id AS of_pos_id,
  o.tensor_id AS of_tensor_id,
  CASE WHEN o.side = w.side AND o.tensor_id = w.tensor_id THEN 'STALE_ROW' ELSE 'OTHER_POSITION' END AS finding
FROM traced_position z
CROSS JOIN trace_row w ON w.run_id = z.run_id AND w.prompt_id = z.prompt_id AND w.side = z.side AND w.pos_id = z.pos_id
CROSS JOIN trace_row p ON p.run_id = +w.run_id AND p.prompt_id = +w.prompt_id AND p.side = 1 - w.side
  AND p.pos_id = +w.pos_id AND p.layer = +w.layer AND p.tensor_id = +w.tensor_id
CROSS JOIN trace_row o ON o.run_id = +w.run_id AND o.prompt_id = +w.prompt_id AND o.side IN (0, 1)
  AND o.pos_id IN (w.pos_id - 1, w.pos_id + 1) AND o.layer = +w.layer
  AND +o.tensor_id IN (w.tensor_id, (SELECT e.from_id FROM edge e
    WHERE e.to_id = w.tensor_id AND e.kind = 'copy' AND e.layer = 'same'))
WHERE +z.side < 2 AND +z.pos_id >= 0 AND p.hash IS NOT w.hash AND p.token_id IS w.token_id
  AND NOT (o.side = w.side AND o.tensor_id = w.tensor_id AND o.pos_id > w.pos_id)
  AND w.nan IS NOT w.n AND w.nz_count IS NOT 0
  AND o.hash = w.hash AND o.n = w.n AND (o.token_id IS NULL OR o.token_id IS NOT w.token_id)
  AND NOT EXISTS (SELECT 1 FROM edge e WHERE e.from_id = w.tensor_id AND e.kind = 'weight')
  -- rows that are the same at both positions tell nothing: those of the partner, and of its own side
  -- unless that is what it is a row of
  AND NOT EXISTS (
    SELECT 1 FROM trace_row e
    WHERE e.run_id = w.run_id AND e.prompt_id = w.prompt_id AND e.side < 2 AND e.pos_id = o.pos_id
      AND e.layer = w.layer AND e.tensor_id = w.tensor_id
      AND e.hash = CASE WHEN e.side = w.side THEN w.hash ELSE p.hash END
      AND NOT (e.side = w.side AND o.side = w.side AND o.tensor_id = w.tensor_id));
