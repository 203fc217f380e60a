-- Prompts that a run announced without saying which rows it would trace of them: their tokens or text are
-- known, or nothing else speaks of them. Rows must be there of each, if there are any of the run.
CREATE VIEW announced_prompt AS
SELECT p.run_id AS run_id, p.id AS prompt_id
FROM prompt p
WHERE NOT EXISTS (SELECT 1 FROM plan l WHERE l.run_id = p.run_id AND l.prompt_id = p.id)
  AND (p.token_ids IS NOT NULL OR p.text_sha256 IS NOT NULL
    OR NOT EXISTS (SELECT 1 FROM report_pair q WHERE q.run_id = p.run_id AND q.prompt_id = p.id)
      AND NOT EXISTS (SELECT 1 FROM readout o WHERE o.run_id = p.run_id AND o.prompt_id = p.id)
      -- a log states how long its prompt is, whether that was traced or not
      AND NOT EXISTS (SELECT 1 FROM run_metric m
        WHERE m.run_id = p.run_id AND m.name = 'prompt_tokens' AND m.prompt = p.name));
