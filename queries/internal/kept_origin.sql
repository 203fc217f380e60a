-- numeric_origin of run_verdict (prompt_id 0) and of first_fail, for verdicts that are kept.
CREATE VIEW kept_origin AS
SELECT v.run_id AS run_id, v.prompt_id AS prompt_id, i.numeric_origin AS numeric_origin
FROM kept_verdict v
JOIN place_origin i ON i.run_id = v.run_id AND i.prompt_id = v.divergent_prompt_id
  AND i.pos_id = v.divergent_pos_id AND i.layer = v.divergent_layer AND i.tensor_id = v.divergent_tensor_id
  AND i.token_id IS v.divergent_token_id
WHERE v.divergent_cause IS NOT NULL;
