-- Prompts where prefill and decode chose another token, or the CPU contradicts the LM head.
-- :run () a run; all of them without
SELECT d.run, d.prompt, d.prefill_route, d.decode_route, d.prefill_top1, d.decode_top1, d.prefill_gap,
       d.decode_gap, d.cpu_probe_agrees_prefill, d.cpu_probe_agrees_decode, d.suspect
FROM lm_head_delta d
WHERE (d.run = :run OR :run IS NULL)
  AND (d.prefill_top1 IS NOT d.decode_top1 OR d.cpu_probe_agrees_prefill = 0
       OR d.cpu_probe_agrees_decode = 0)
ORDER BY d.run_id, d.prompt;
