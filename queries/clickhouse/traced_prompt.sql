-- One row per push and prompt that has trace rows of its own: what a document states was not traced.
SELECT push, prompt_id
FROM {db}.trace_row
WHERE push IN (SELECT push FROM asked) AND bitAnd(flags, 8) = 0
GROUP BY push, prompt_id
