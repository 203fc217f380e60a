-- Findings about the places where prompts fail first, the most telling first.
-- :run a run
SELECT
  d.prompt, d.pos_id, d.layer, d.tensor, d.finding, d.side, d.other_side, d.other_tensor, d.unit, d.at, d.other_at,
  d.count, d.of_count, d.value, d.distance, d.meaning
FROM diagnosis d
WHERE d.run = :run
ORDER BY d.layer < 0, d.layer, d.tensor, d.ord, d.finding, d.unit;
