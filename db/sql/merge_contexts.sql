-- Adds contexts of rows that are not here, and maps all by their fields.
INSERT INTO main.row_context(route, src_kind, phase_raw, seq_len, tokens_total, token_index, kv_pos, stride_elems,
                             alloc_bytes, prompt_tokens, decode_step, extra)
  SELECT route, src_kind, phase_raw, seq_len, tokens_total, token_index, kv_pos, stride_elems, alloc_bytes,
         prompt_tokens, decode_step, extra FROM other.row_context
  EXCEPT
  SELECT route, src_kind, phase_raw, seq_len, tokens_total, token_index, kv_pos, stride_elems, alloc_bytes,
         prompt_tokens, decode_step, extra FROM main.row_context;
INSERT OR IGNORE INTO temp.merge_fields
  SELECT json_array(route, src_kind, phase_raw, seq_len, tokens_total, token_index, kv_pos, stride_elems, alloc_bytes,
                    prompt_tokens, decode_step, extra), id
  FROM main.row_context;
INSERT INTO temp.merge_context
  SELECT o.id, f.id
  FROM other.row_context o
  JOIN temp.merge_fields f ON f.fields = json_array(o.route, o.src_kind, o.phase_raw, o.seq_len, o.tokens_total,
    o.token_index, o.kv_pos, o.stride_elems, o.alloc_bytes, o.prompt_tokens, o.decode_step, o.extra);
