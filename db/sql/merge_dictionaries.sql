-- Maps prompts of mapped runs, phases, and trace points, whose names are all here by now.

-- A prompt of a run of both files that is not the same there and here.
INSERT OR IGNORE INTO main.ingest_error(file, line, severity, reason, about)
  SELECT r.name, 0, 'error', 'prompt ' || p.name || ' is announced as two: of other tokens, or of another text', r.name
  FROM other.prompt p JOIN temp.merge_run m ON m.other_id = p.run_id
  JOIN main.run r ON r.id = m.id JOIN main.prompt q ON q.run_id = m.id AND q.name = p.name
  WHERE (q.n_tokens <> p.n_tokens OR q.text_sha256 <> p.text_sha256 OR q.token_ids <> p.token_ids)
    AND p.name NOT GLOB 'seg[0-9]*'  -- a number, not a name
  ORDER BY p.id;
INSERT INTO main.prompt(run_id, name, n_tokens, text_sha256, token_ids)
  SELECT m.id, p.name, p.n_tokens, p.text_sha256, p.token_ids
  FROM other.prompt p JOIN temp.merge_run m ON m.other_id = p.run_id WHERE true ORDER BY p.id
  ON CONFLICT(run_id, name) DO UPDATE SET
    n_tokens = coalesce(max(n_tokens, excluded.n_tokens), n_tokens, excluded.n_tokens),
    text_sha256 = coalesce(max(text_sha256, excluded.text_sha256), text_sha256, excluded.text_sha256),
    token_ids = coalesce(max(token_ids, excluded.token_ids), token_ids, excluded.token_ids);
INSERT INTO temp.merge_prompt
  SELECT p.id, q.id FROM other.prompt p JOIN temp.merge_run m ON m.other_id = p.run_id
  JOIN main.prompt q ON q.run_id = m.id AND q.name = p.name;
INSERT OR IGNORE INTO main.phase(name, side) SELECT name, side FROM other.phase ORDER BY id;
INSERT INTO temp.merge_phase
  SELECT o.id, p.id, p.side FROM other.phase o JOIN main.phase p ON p.name = o.name;
INSERT OR IGNORE INTO main.cause(name, root_cause) SELECT name, root_cause FROM other.cause;
INSERT INTO temp.merge_name
  SELECT o.id, n.id, n.tensor_id FROM other.tensor_name o JOIN main.tensor_name n ON n.name = o.name;
INSERT INTO temp.merge_tensor
  SELECT k.id, n.tensor_id FROM other.tensor k JOIN main.tensor_name n ON n.name = k.name;
