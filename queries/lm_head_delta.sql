-- One row per run and prompt: what the last prefill position up to it and the first decode step chose,
-- by order and not by position (decode may sit one position later), and which LM-head route the CPU
-- probe contradicts.
CREATE VIEW lm_head_delta AS
SELECT
  r.name AS run,                                       -- run.name
  q.name AS prompt,                                    -- prompt of the run
  p.route AS prefill_route,                            -- VALU, MFMA, BLAS; NULL not recorded
  d.route AS decode_route,                             -- the same for decode
  p.top1_id AS prefill_top1,                           -- token id with the greatest logit
  d.top1_id AS decode_top1,                            -- the same for decode
  p.gap AS prefill_gap,                                -- top1_logit - top2_logit
  d.gap AS decode_gap,                                 -- the same for decode
  p.cpu_agrees AS cpu_probe_agrees_prefill,            -- 1: the CPU, from the same hidden state, chose the same token
  d.cpu_agrees AS cpu_probe_agrees_decode,             -- the same for decode
  CASE
    WHEN p.cpu_agrees = 0 AND d.cpu_agrees = 1 THEN coalesce(p.route, 'prefill')
    WHEN p.cpu_agrees = 1 AND d.cpu_agrees = 0 THEN coalesce(d.route, 'decode')
    WHEN p.cpu_agrees = 0 AND d.cpu_agrees = 0 THEN
      CASE WHEN p.route IS d.route THEN coalesce(p.route, 'both')
           ELSE coalesce(p.route, 'prefill') || ' and ' || coalesce(d.route, 'decode') END
  END AS suspect,                                      -- route whose top-1 the CPU contradicts; NULL none or no probe
  p.pos_id AS prefill_pos_id,                          -- -1 unknown
  d.pos_id AS decode_pos_id,                           -- -1 unknown
  p.cpu_top1_id AS cpu_probe_prefill_top1,             -- the CPU's choice
  d.cpu_top1_id AS cpu_probe_decode_top1,              -- the CPU's choice
  n.name AS tensor,                                    -- logits, logits_topk
  r.id AS run_id                                       -- run.id
FROM run r
JOIN readout p ON p.run_id = r.id AND p.side = 0
JOIN prompt q ON q.id = p.prompt_id
JOIN tensor_name n ON n.id = p.name_id
JOIN readout d ON d.run_id = p.run_id AND d.prompt_id = p.prompt_id AND d.side = 1
  AND d.name_id = p.name_id
WHERE NOT EXISTS (
    SELECT 1 FROM readout x
    WHERE x.run_id = p.run_id AND x.prompt_id = p.prompt_id AND x.side = 0
      AND x.name_id = p.name_id
      AND (d.pos_id < 0 OR x.pos_id <= d.pos_id, x.step, x.pos_id) > (d.pos_id < 0 OR p.pos_id <= d.pos_id, p.step, p.pos_id))
  AND NOT EXISTS (
    SELECT 1 FROM readout x
    WHERE x.run_id = d.run_id AND x.prompt_id = d.prompt_id AND x.side = 1
      AND x.name_id = d.name_id AND (x.step, x.pos_id) < (d.step, d.pos_id));
