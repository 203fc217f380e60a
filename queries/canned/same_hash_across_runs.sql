-- Trace points where two runs hold bitwise the same values, and how many of those they share.
-- :run_a a run
-- :run_b another run
SELECT k.name AS tensor, x.layer, h.name AS phase, count(*) AS shared,
       sum(x.hash IS y.hash AND x.n IS y.n AND x.hash IS NOT NULL) AS equal
FROM run a
JOIN run b ON b.name = :run_b AND b.hash_algo = a.hash_algo
JOIN trace_row x ON x.run_id = a.id
JOIN prompt p ON p.id = x.prompt_id
JOIN prompt q ON q.run_id = b.id AND q.name = p.name
JOIN trace_row y ON y.run_id = b.id AND y.prompt_id = q.id AND y.side = x.side
  AND y.pos_id = x.pos_id AND y.layer = x.layer AND y.tensor_id = x.tensor_id
  AND y.phase_id = x.phase_id AND y.step = x.step AND y.name_id = x.name_id
  AND y.nth = x.nth
JOIN tensor k ON k.id = x.tensor_id
JOIN phase h ON h.id = x.phase_id
WHERE a.name = :run_a
GROUP BY x.layer, x.tensor_id, x.phase_id
HAVING equal > 0
ORDER BY x.layer < 0, x.layer, x.tensor_id, x.phase_id;
