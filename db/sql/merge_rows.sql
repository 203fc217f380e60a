-- Trace rows of new sources with our ids, run by run in the order of the key.
SELECT r.id, q.id, h.id, h.side, n.id, n.tensor_id, s.id, t.pos_id, t.layer, t.step, t.line, t.ptr, t.offset_bytes,
       c.id, t.token_id, t.logical_tok_idx, t.n, t.hash, t.min, t.max, t.mean, t.abs_sum, t.nan, t.inf, t.nz_count,
       t.flags, (SELECT data FROM other.sample WHERE id = t.sample_id), k.*
FROM temp.merge_run r
CROSS JOIN other.trace_row t ON t.run_id = r.other_id
CROSS JOIN temp.merge_source s ON s.other_id = t.source_id AND s.is_new AND t.line > s.from_line
CROSS JOIN temp.merge_prompt q ON q.other_id = t.prompt_id
CROSS JOIN temp.merge_phase h ON h.other_id = t.phase_id
CROSS JOIN temp.merge_name n ON n.other_id = t.name_id
LEFT JOIN temp.merge_context c ON c.other_id = t.context_id
LEFT JOIN other.sketch k ON k.id = t.sketch_id
WHERE r.has_new;
