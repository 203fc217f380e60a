-- Maps contexts of rows by their fields, and adds those that are not here.
INSERT OR IGNORE INTO temp.merge_fields
  SELECT json_array(route, src_kind, phase_raw, seq_len, tokens_total, token_index, kv_pos, stride_elems, alloc_bytes,
                    prompt_tokens, decode_step, extra), id
  FROM main.row_context;
INSERT INTO main.row_context(route, src_kind, phase_raw, seq_len, tokens_total, token_index, kv_pos, stride_elems,
                             alloc_bytes, prompt_tokens, decode_step, extra)
  SELECT DISTINCT route, src_kind, phase_raw, seq_len, tokens_total, token_index, kv_pos, stride_elems, alloc_bytes,
                  prompt_tokens, decode_step, extra
  FROM other.row_context
  WHERE json_array(route, src_kind, phase_raw, seq_len, tokens_total, token_index, kv_pos, stride_elems, alloc_bytes,
                   prompt_tokens, decode_step, extra) NOT IN (SELECT fields FROM temp.merge_fields);
INSERT OR IGNORE INTO temp.merge_fields
  SELECT json_array(route, src_kind, phase_raw, seq_len, tokens_total, token_index, kv_pos, stride_elems, alloc_bytes,
                    prompt_tokens, decode_step, extra), id
  FROM main.row_context;
INSERT INTO temp.merge_context
  SELECT o.id, f.id
  FROM other.row_context o
  JOIN temp.merge_fields f ON f.fields = json_array(o.route, o.src_kind, o.phase_raw, o.seq_len, o.tokens_total,
    o.token_index, o.kv_pos, o.stride_elems, o.alloc_bytes, o.prompt_tokens, o.decode_step, o.extra);
