-- Rows of a version 1 file into tables of version 2. The tables of version 1 were renamed: *_v1.

INSERT INTO trace_row(run_id, prompt_id, side, pos_id, layer, tensor_id, nth, crowded, phase_id, step,
    name_id, token_id, logical_tok_idx, n, hash, min, max, mean, abs_sum, nan, inf, nz_count, flags,
    vector_id, ptr, offset_bytes, context_id, source_id, line)
  SELECT run_id, prompt_id, side, pos_id, layer, tensor_id,
    row_number() OVER (PARTITION BY run_id, prompt_id, side, pos_id, layer, tensor_id
                       ORDER BY phase_id, step, name_id, occurrence) - 1,
    count(*) OVER (PARTITION BY run_id, prompt_id, side, pos_id, layer, tensor_id) > 1,
    phase_id, step, name_id, token_id, logical_tok_idx, n, hash, min, max, mean, abs_sum, nan, inf,
    nz_count, flags, vector_id, ptr, offset_bytes, context_id, source_id, line
  FROM trace_row_v1;

INSERT INTO traced_position(run_id, prompt_id, side, pos_id, demands)
  SELECT run_id, prompt_id, side, pos_id,
    max(phase_id = (SELECT id FROM phase WHERE name = 'prefill_last'))
  FROM trace_row GROUP BY run_id, prompt_id, side, pos_id;

-- How many rows of the place come before it is where a repeated row stands now.
INSERT INTO trace_repeat(run_id, prompt_id, side, pos_id, layer, tensor_id, nth, count)
  SELECT r.run_id, r.prompt_id, r.side, r.pos_id, r.layer, r.tensor_id,
    (SELECT count(*) FROM trace_row_v1 x
     WHERE x.run_id = r.run_id AND x.prompt_id = r.prompt_id AND x.side = r.side AND x.pos_id = r.pos_id
       AND x.layer = r.layer AND x.tensor_id = r.tensor_id
       AND (x.phase_id, x.step, x.name_id, x.occurrence) < (r.phase_id, r.step, r.name_id, r.occurrence)),
    r.count
  FROM trace_repeat_v1 r;

DROP TABLE trace_row_v1;
DROP TABLE trace_repeat_v1;
ALTER TABLE run DROP COLUMN tally;
