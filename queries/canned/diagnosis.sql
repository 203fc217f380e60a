-- What the rows of the first pair beyond rounding look like, prompt by prompt, the most telling first.
-- :run a run
SELECT d.prompt, d.pos_id, d.layer, d.tensor, d.finding, d.evidence, d.meaning
FROM diagnosis d
WHERE d.run = :run
ORDER BY d.prompt_id, d.ord;
