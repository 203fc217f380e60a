-- What greta knows about trace points, as rows: order, names, causes, data flow, tolerances.

INSERT INTO phase(id, name, side) VALUES
  (1, 'prefill_last', 0), (2, 'prefill', 0), (3, 'decode0', 1), (4, 'decode', 1);

INSERT INTO status(name, compared, fails, blamed) VALUES
  ('MATCH', 1, 0, 0), ('DRIFT', 1, 1, 1), ('NONFINITE', 1, 1, 1), ('AMBIGUOUS', 1, 1, 1),
  ('CONFLICT', 1, 1, 1), ('REFUTED', 0, 1, 1),
  ('INCOMPARABLE', 1, 0, 0), ('MISSING', 0, 0, 1), ('DECODE_ONLY', 0, 0, 0), ('PREFILL_ONLY', 0, 0, 0),
  ('ALONE', 0, 0, 0);

INSERT INTO class(name, grade) VALUES ('ROUNDING', 1), ('EXPLAINED', 1), ('UNKNOWN', 2), ('DIVERGENT', 3);

-- docs/fingerprint.md has the interval.
INSERT INTO measure(name, low, high) VALUES
  ('exact', NULL, NULL), ('hash', NULL, NULL), ('sample', 0.80, 1.32), ('sketch', 0.80, 1.32);

INSERT INTO tensor(id, ord, name, stage) VALUES
  (5, 5, 'embd_w_hash', 'embed'), (10, 10, 'embed_out', 'embed'),
  (20, 20, 'residual_pre_attn', 'layer'), (25, 25, 'rms_weight', 'layer'),
  (30, 30, 'attn_norm_out', 'layer'),
  (40, 40, 'q_pre_rope', 'layer'), (41, 41, 'k_pre_rope', 'layer'), (42, 42, 'v_proj', 'layer'),
  (50, 50, 'q_post_rope', 'layer'), (51, 51, 'k_post_rope', 'layer'),
  (55, 55, 'k_cache', 'layer'), (56, 56, 'v_cache', 'layer'),
  (57, 57, 'k_cache_rows', 'layer'), (58, 58, 'v_cache_rows', 'layer'),
  (60, 60, 'attn_scores', 'layer'), (61, 61, 'attn_probs', 'layer'),
  (70, 70, 'attn_out', 'layer'), (75, 75, 'wo_out', 'layer'),
  (80, 80, 'residual_post_attn', 'layer'), (90, 90, 'ffn_norm_in', 'layer'),
  (100, 100, 'mlp_out', 'layer'), (110, 110, 'residual_post_mlp', 'layer'),
  (115, 115, 'x_out', 'layer'),
  (200, 200, 'hidden', 'head'), (202, 202, 'final_norm', 'head'), (204, 204, 'lm_head_in', 'head'),
  (210, 210, 'logits', 'head'), (211, 210, 'logits_top1', 'head'), (212, 210, 'logits_topk', 'head');
UPDATE tensor SET switch_on = 40, switch_cause = 'ROPE_DRIFT' WHERE id = 50;
UPDATE tensor SET switch_on = 41, switch_cause = 'K_ROPE_DRIFT' WHERE id = 51;

INSERT INTO tensor_name(name, tensor_id, cause) VALUES
  ('embd_w_hash', 5, 'EMBD_W_HASH_DRIFT'),
  ('embed_out', 10, 'EMBED_DRIFT'),
  ('residual_pre_attn', 20, 'RESIDUAL_PRE_ATTN_DRIFT'),
  ('x_in', 20, 'X_IN_DRIFT'),
  ('rms_in', 20, 'RMS_IN_DRIFT'),
  ('rms_weight', 25, 'RMS_WEIGHT_DRIFT'),
  ('attn_norm_out', 30, 'ATTN_NORM_DRIFT'),
  ('norm_out', 30, 'NORM_OUT_DRIFT'),
  ('q_pre_rope', 40, 'Q_PRE_ROPE_DRIFT'), ('q_proj', 40, 'Q_PRE_ROPE_DRIFT'),
  ('k_pre_rope', 41, 'K_PRE_ROPE_DRIFT'), ('k_proj', 41, 'K_PRE_ROPE_DRIFT'),
  ('v_proj', 42, 'V_PROJ_DRIFT'),
  ('q_post_rope', 50, 'Q_POST_ROPE_DRIFT'),
  ('k_post_rope', 51, 'K_POST_ROPE_DRIFT'),
  ('k_cache', 55, 'K_CACHE_DRIFT'), ('v_cache', 56, 'V_CACHE_DRIFT'),
  ('k_cache_rows', 57, 'K_CACHE_ROWS_DRIFT'), ('v_cache_rows', 58, 'V_CACHE_ROWS_DRIFT'),
  ('attn_scores', 60, 'ATTN_SCORES_DRIFT'), ('attn_probs', 61, 'ATTN_PROBS_DRIFT'),
  ('attn_out', 70, 'ATTN_OUT_DRIFT'), ('wo_out', 75, 'WO_OUT_DRIFT'),
  ('residual_post_attn', 80, 'RESIDUAL_POST_ATTN_DRIFT'),
  ('x_after_attn', 80, 'RESIDUAL_POST_ATTN_DRIFT'),
  ('ffn_norm_in', 90, 'FFN_NORM_DRIFT'), ('ffn_norm', 90, 'FFN_NORM_DRIFT'),
  ('mlp_out', 100, 'MLP_OUT_DRIFT'),
  ('residual_post_mlp', 110, 'RESIDUAL_POST_MLP_DRIFT'),
  ('x_after_mlp', 110, 'RESIDUAL_POST_MLP_DRIFT'),
  ('x_out', 115, 'X_OUT_DRIFT'),
  ('hidden', 200, 'HIDDEN_DRIFT'),
  ('final_norm', 202, 'FINAL_NORM_DRIFT'), ('final_rms', 202, 'FINAL_NORM_DRIFT'),
  ('rms', 202, 'FINAL_NORM_DRIFT'),
  ('lm_head_in', 204, 'LM_HEAD_IN_DRIFT'),
  ('logits', 210, 'LOGITS_DRIFT'), ('logits_top1', 211, 'LOGITS_DRIFT'),
  ('logits_topk', 212, 'LOGITS_DRIFT');

INSERT INTO cause(name, root_cause) VALUES
  ('TRACE_OFFSET', 'PAIRING_MISMATCH'), ('AMBIGUOUS_TRACE', 'PAIRING_MISMATCH'),
  ('EVIDENCE_CONFLICT', 'CONTRADICTORY_EVIDENCE'),
  ('FINAL_NORM_REFUTED', 'NORMALIZATION_MISMATCH'), ('LOGITS_REFUTED', 'LM_HEAD_MISMATCH'),
  ('EMBD_W_HASH_DRIFT', 'EMBEDDING_MISMATCH'), ('EMBED_DRIFT', 'EMBEDDING_MISMATCH'),
  ('RESIDUAL_PRE_ATTN_DRIFT', 'RESIDUAL_STREAM_MISMATCH'),
  ('X_IN_DRIFT', 'RESIDUAL_STREAM_MISMATCH'), ('RMS_IN_DRIFT', 'RESIDUAL_STREAM_MISMATCH'),
  ('RESIDUAL_POST_ATTN_DRIFT', 'RESIDUAL_STREAM_MISMATCH'),
  ('RESIDUAL_POST_MLP_DRIFT', 'RESIDUAL_STREAM_MISMATCH'),
  ('X_OUT_DRIFT', 'RESIDUAL_STREAM_MISMATCH'), ('HIDDEN_DRIFT', 'RESIDUAL_STREAM_MISMATCH'),
  ('RMS_WEIGHT_DRIFT', 'NORMALIZATION_MISMATCH'), ('ATTN_NORM_DRIFT', 'NORMALIZATION_MISMATCH'),
  ('NORM_OUT_DRIFT', 'NORMALIZATION_MISMATCH'), ('FFN_NORM_DRIFT', 'NORMALIZATION_MISMATCH'),
  ('FINAL_NORM_DRIFT', 'NORMALIZATION_MISMATCH'),
  ('Q_PRE_ROPE_DRIFT', 'ATTENTION_COMPUTATION_MISMATCH'),
  ('K_PRE_ROPE_DRIFT', 'ATTENTION_COMPUTATION_MISMATCH'),
  ('V_PROJ_DRIFT', 'ATTENTION_COMPUTATION_MISMATCH'),
  ('ROPE_DRIFT', 'ATTENTION_COMPUTATION_MISMATCH'),
  ('K_ROPE_DRIFT', 'ATTENTION_COMPUTATION_MISMATCH'),
  ('Q_POST_ROPE_DRIFT', 'ATTENTION_COMPUTATION_MISMATCH'),
  ('K_POST_ROPE_DRIFT', 'ATTENTION_COMPUTATION_MISMATCH'),
  ('K_CACHE_DRIFT', 'ATTENTION_COMPUTATION_MISMATCH'),
  ('V_CACHE_DRIFT', 'ATTENTION_COMPUTATION_MISMATCH'),
  ('K_CACHE_ROWS_DRIFT', 'ATTENTION_COMPUTATION_MISMATCH'),
  ('V_CACHE_ROWS_DRIFT', 'ATTENTION_COMPUTATION_MISMATCH'),
  ('ATTN_SCORES_DRIFT', 'ATTENTION_COMPUTATION_MISMATCH'),
  ('ATTN_PROBS_DRIFT', 'ATTENTION_COMPUTATION_MISMATCH'),
  ('ATTN_OUT_DRIFT', 'ATTENTION_COMPUTATION_MISMATCH'),
  ('WO_OUT_DRIFT', 'ATTENTION_PROJECTION_MISMATCH'),
  ('MLP_OUT_DRIFT', 'MLP_COMPUTATION_MISMATCH'),
  ('LM_HEAD_IN_DRIFT', 'LM_HEAD_MISMATCH'), ('LOGITS_DRIFT', 'LM_HEAD_MISMATCH');

INSERT INTO finding(name, ord, meaning) VALUES
  ('UNSTABLE', 5, 'a race, or memory that somebody else writes'),
  ('STATE', 6, 'a buffer, a cache row or a number that keeps what another prompt left in it'),
  ('OTHER_POSITION', 7, 'a position off by one, or a stale row'),
  ('STALE_ROW', 8, 'the row of the token before was not overwritten, or was captured too early'),
  ('RECORD_ONLY', 10, 'the trace: the row was captured too early, too late or from another buffer'),
  ('ALL_NAN', 12, 'it reads what nobody wrote (a buffer, a cache row, a slot beyond the last one), or overflows'),
  ('SOME_NAN', 15, 'an overflow, as of an exponential without its maximum, or single rows or heads that nobody wrote'),
  ('ALL_ZERO', 20, 'nothing was computed into it: a launch that did nothing, or a buffer cleared too late'),
  ('OTHER_LAYER', 50, 'the weights, the cache or the buffer of another layer'),
  ('OTHER_TENSOR', 60, 'the step between them did nothing, or the wrong buffer was read'),
  ('EARLIER_ROW', 60, 'cache rows before this position that were overwritten, spoiled or read from elsewhere'),
  ('PERMUTED', 66, 'another layout: heads, pairs or rows in another order'),
  ('TAIL', 67, 'a loop that leaves out or repeats the last values'),
  ('SOME_VALUES', 68, 'a tile, a block of weights or the share of a thread that is left out, stale or written twice'),
  ('FEW_VALUES', 69, 'single values: a race, an index that two threads share, a value that was written twice'),
  ('FEWER_VALUES', 70, 'values that were left out: a mask, a block or a tail'),
  ('SOME_HEADS', 71, 'the mapping, the stride or the layout of heads'),
  ('MISSING_WEIGHT', 72, 'a weight of a norm or a bias that is not applied, or is another one'),
  ('ADDED', 73, 'a term of a sum that is left out, added twice or another one'),
  ('NOT_ONE', 74, 'keys beyond the mask, or a sum over other keys than the probabilities'),
  ('SCALED', 75, 'a scale, an epsilon or a weight that is missing, or applied twice'),
  ('TURNED', 76, 'a rotation by other angles: the position, the base frequency or the pairing of RoPE'),
  ('ROUNDING', 84, 'the same sums in another order (another kernel, route or batch), or a number off in its last digits'),
  ('FEWER_BITS', 86, 'arithmetic or storage of fewer bits: sums or weights in fp16 or bf16'),
  ('UNRELATED', 88, 'values from elsewhere: a layout, a stride, an offset, a mapping of heads or other weights'),
  ('OTHER_VALUES', 89, 'another input, weight or constant in the same computation'),
  ('ONSET', 100, 'the size of a block, a tile or a batch'),
  ('REPEATED', 110, 'no race: the same every time');

-- The forward pass of a Llama block. x_out and residual_post_mlp are the same values, and so is the
-- next layer's residual_pre_attn; at layer 0 it is the embedding. At position 0 the rows of the cache
-- are the token's own. Gains: a copy has 1; of an operation the most that clean probes of random models showed is 3, and
-- of the cache's rows, whose other positions are not traced, 9; exp(x) multiplies by 1 + d where x differs by d,
-- and so does the sum of all.
INSERT INTO edge(to_id, from_id, layer, kind, passes, gain) VALUES
  (10, 5, 'same', 'weight', 'relative', 0),
  (20, 10, 'same', 'copy', 'relative', 1), (20, 115, 'previous', 'copy', 'relative', 1), (20, 110, 'previous', 'alias', 'relative', 1),
  (30, 20, 'same', 'input', 'relative', 4), (30, 25, 'same', 'weight', 'relative', 0),
  (40, 30, 'same', 'input', 'relative', 4), (41, 30, 'same', 'input', 'relative', 4), (42, 30, 'same', 'input', 'relative', 4),
  (50, 40, 'same', 'input', 'relative', 4), (51, 41, 'same', 'input', 'relative', 4),
  (55, 51, 'same', 'copy', 'stored', 1), (56, 42, 'same', 'copy', 'stored', 1),
  (57, 55, 'same', 'copy', 'stored', 32), (57, 51, 'same', 'alias', 'stored', 32),
  (58, 56, 'same', 'copy', 'stored', 32), (58, 42, 'same', 'alias', 'stored', 32),
  (60, 50, 'same', 'input', 'relative', 4), (60, 55, 'same', 'input', 'relative', 4), (60, 57, 'same', 'state', 'relative', 4),
  (61, 60, 'same', 'input', 'absolute', 2),
  (70, 61, 'same', 'input', 'relative', 8), (70, 56, 'same', 'input', 'relative', 8), (70, 58, 'same', 'state', 'relative', 8),
  (75, 70, 'same', 'input', 'relative', 4),
  (80, 75, 'same', 'input', 'relative', 4), (80, 20, 'same', 'input', 'relative', 4),
  (90, 80, 'same', 'input', 'relative', 4),
  (100, 90, 'same', 'input', 'relative', 4),
  (110, 80, 'same', 'input', 'relative', 4), (110, 100, 'same', 'input', 'relative', 4),
  (115, 110, 'same', 'copy', 'relative', 1),
  (200, 115, 'last', 'copy', 'relative', 1), (200, 110, 'last', 'alias', 'relative', 1),
  (202, 200, 'same', 'input', 'relative', 4),
  (204, 202, 'same', 'copy', 'relative', 1),
  (210, 204, 'same', 'input', 'relative', 4),
  (211, 210, 'same', 'input', 'relative', 4), (212, 210, 'same', 'input', 'relative', 4);

INSERT INTO origin(worst_input, unsampled, origin, numeric_origin) VALUES
  (0, 0, 'UNSAMPLED', 'UNSAMPLED'), (0, 1, 'UNSAMPLED', 'UNSAMPLED'),
  (1, 0, 'ORIGIN', 'ORIGIN'), (1, 1, 'UNSAMPLED', 'UNSAMPLED'),
  (2, 0, 'PROPAGATED', 'ORIGIN'), (2, 1, 'PROPAGATED', 'UNSAMPLED'),
  (3, 0, 'UNSAMPLED', 'UNSAMPLED'), (3, 1, 'UNSAMPLED', 'UNSAMPLED'),
  (4, 0, 'PROPAGATED', 'PROPAGATED'), (4, 1, 'PROPAGATED', 'PROPAGATED');

-- Names of modules (Hugging Face, and what msprobe and SGLang make of them) and of llama.cpp's graph, with
-- what a tool adds: `.input.0`, `.output.0` (msprobe), `.0` and `.1` (several results), the operation
-- (llama.cpp). Of inputs those are trace points that no module puts out.
INSERT INTO name_rule(ord, pattern, tensor, rule_set) VALUES
  (1000, '(?:model\.)?embed_tokens', 'embed_out', 'huggingface'),
  (1000, '(?:model\.)?layers\.(\d+)\.input_layernorm', 'attn_norm_out', 'huggingface'),
  (1000, '(?:model\.)?layers\.(\d+)\.self_attn\.q_proj', 'q_pre_rope', 'huggingface'),
  (1000, '(?:model\.)?layers\.(\d+)\.self_attn\.k_proj', 'k_pre_rope', 'huggingface'),
  (1000, '(?:model\.)?layers\.(\d+)\.self_attn\.v_proj', 'v_proj', 'huggingface'),
  (1000, '(?:model\.)?layers\.(\d+)\.self_attn\.o_proj', 'wo_out', 'huggingface'),
  (1000, '(?:model\.)?layers\.(\d+)\.post_attention_layernorm', 'ffn_norm_in', 'huggingface'),
  (1000, '(?:model\.)?layers\.(\d+)\.mlp(?:\.down_proj)?', 'mlp_out', 'huggingface'),
  (1000, '(?:model\.)?layers\.(\d+)', 'residual_post_mlp', 'huggingface'),
  (1000, '(?:model\.)?norm', 'final_norm', 'huggingface'),
  (1000, 'lm_head', 'logits', 'huggingface'),
  (2000, 'Module\.(?:module\.)*(?:model\.)?embed_tokens\.\w+\.forward(?:\.\d+)?\.output\.0', 'embed_out', 'msprobe'),
  (2000, 'Module\.(?:module\.)*(?:model\.)?layers\.(\d+)\.input_layernorm\.\w+\.forward(?:\.\d+)?\.output\.0', 'attn_norm_out', 'msprobe'),
  (2000, 'Module\.(?:module\.)*(?:model\.)?layers\.(\d+)\.self_attn\.q_proj\.\w+\.forward(?:\.\d+)?\.output\.0', 'q_pre_rope', 'msprobe'),
  (2000, 'Module\.(?:module\.)*(?:model\.)?layers\.(\d+)\.self_attn\.k_proj\.\w+\.forward(?:\.\d+)?\.output\.0', 'k_pre_rope', 'msprobe'),
  (2000, 'Module\.(?:module\.)*(?:model\.)?layers\.(\d+)\.self_attn\.v_proj\.\w+\.forward(?:\.\d+)?\.output\.0', 'v_proj', 'msprobe'),
  (2000, 'Module\.(?:module\.)*(?:model\.)?layers\.(\d+)\.self_attn\.o_proj\.\w+\.forward(?:\.\d+)?\.output\.0', 'wo_out', 'msprobe'),
  (2000, 'Module\.(?:module\.)*(?:model\.)?layers\.(\d+)\.post_attention_layernorm\.\w+\.forward(?:\.\d+)?\.output\.0', 'ffn_norm_in', 'msprobe'),
  (2000, 'Module\.(?:module\.)*(?:model\.)?layers\.(\d+)\.mlp\.\w+\.forward(?:\.\d+)?\.output\.0', 'mlp_out', 'msprobe'),
  (2000, 'Module\.(?:module\.)*(?:model\.)?layers\.(\d+)\.\w+\.forward(?:\.\d+)?\.output\.0', 'residual_post_mlp', 'msprobe'),
  (2000, 'Module\.(?:module\.)*(?:model\.)?norm\.\w+\.forward(?:\.\d+)?\.output\.0', 'final_norm', 'msprobe'),
  (2000, 'Module\.(?:module\.)*lm_head\.\w+\.forward(?:\.\d+)?\.output\.0', 'logits', 'msprobe'),
  (2000, 'Module\.(?:module\.)*(?:model\.)?layers\.(\d+)\.input_layernorm\.\w+\.forward(?:\.\d+)?\.input\.0', 'residual_pre_attn', 'msprobe'),
  (2000, 'Module\.(?:module\.)*(?:model\.)?layers\.(\d+)\.self_attn\.o_proj\.\w+\.forward(?:\.\d+)?\.input\.0', 'attn_out', 'msprobe'),
  (2000, 'Module\.(?:module\.)*(?:model\.)?layers\.(\d+)\.post_attention_layernorm\.\w+\.forward(?:\.\d+)?\.input\.0', 'residual_post_attn', 'msprobe'),
  (2000, 'Module\.(?:module\.)*(?:model\.)?norm\.\w+\.forward(?:\.\d+)?\.input\.0', 'hidden', 'msprobe'),
  (2000, 'Module\.(?:module\.)*lm_head\.\w+\.forward(?:\.\d+)?\.input\.0', 'lm_head_in', 'msprobe'),
  (3000, '(?:model\.)?layers\.(\d+)\.input_layernorm\.0', 'attn_norm_out', 'sglang'),
  (3000, '(?:model\.)?layers\.(\d+)\.input_layernorm\.1', 'residual_pre_attn', 'sglang'),
  (3000, '(?:model\.)?layers\.(\d+)\.self_attn\.rotary_emb\.0', 'q_post_rope', 'sglang'),
  (3000, '(?:model\.)?layers\.(\d+)\.self_attn\.rotary_emb\.1', 'k_post_rope', 'sglang'),
  (3000, '(?:model\.)?layers\.(\d+)\.self_attn\.attn', 'attn_out', 'sglang'),
  (3000, '(?:model\.)?layers\.(\d+)\.post_attention_layernorm\.0', 'ffn_norm_in', 'sglang'),
  (3000, '(?:model\.)?layers\.(\d+)\.post_attention_layernorm\.1', 'residual_post_attn', 'sglang'),
  (3000, '(?:model\.)?norm\.0', 'final_norm', 'sglang'),
  (3000, '(?:model\.)?norm\.1', 'hidden', 'sglang'),
  (3000, 'logits_processor', 'logits', 'sglang'),
  (4000, 'embd GET_ROWS', 'embed_out', 'llama.cpp'),
  (4000, 'attn_norm-(\d+) MUL', 'attn_norm_out', 'llama.cpp'),
  (4000, 'Qcur-(\d+) MUL_MAT', 'q_pre_rope', 'llama.cpp'),
  (4000, 'Kcur-(\d+) MUL_MAT', 'k_pre_rope', 'llama.cpp'),
  (4000, 'Vcur-(\d+) MUL_MAT', 'v_proj', 'llama.cpp'),
  (4000, 'Qcur-(\d+) ROPE', 'q_post_rope', 'llama.cpp'),
  (4000, 'Kcur-(\d+) ROPE', 'k_post_rope', 'llama.cpp'),
  (4000, 'kqv_out-(\d+) \w+', 'attn_out', 'llama.cpp'),
  (4000, 'attn_out-(\d+) MUL_MAT', 'wo_out', 'llama.cpp'),
  (4000, 'ffn_inp-(\d+) ADD', 'residual_post_attn', 'llama.cpp'),
  (4000, 'ffn_norm-(\d+) MUL', 'ffn_norm_in', 'llama.cpp'),
  (4000, 'ffn_out-(\d+) MUL_MAT', 'mlp_out', 'llama.cpp'),
  (4000, 'l_out-(\d+) ADD', 'residual_post_mlp', 'llama.cpp'),
  (4000, 'result_norm MUL', 'final_norm', 'llama.cpp'),
  (4000, 'result_output MUL_MAT', 'logits', 'llama.cpp');

-- Rounding: a weight or a table look-up has none; activations by the arithmetic of the run.
INSERT INTO tolerance(tensor_id, dtype, rel_l2) VALUES
  (5, NULL, 0.0), (25, NULL, 0.0), (10, NULL, 0.0),
  (NULL, 'f32', 1e-4), (NULL, 'fp32', 1e-4),
  (NULL, 'f16', 1e-2), (NULL, 'fp16', 1e-2),
  (NULL, 'bf16', 3e-2),
  (NULL, NULL, 1e-2);

-- Typical shape of a warehouse, so that the planner seeks the whole key of trace_row although the
-- file has never been analysed. `ANALYZE` replaces it by the file's own figures.
ANALYZE run;
INSERT INTO sqlite_stat1(tbl, idx, stat) VALUES
  ('trace_row', 'trace_row', '10000000 10000 2500 1250 400 13 1 1'),
  ('traced_position', 'traced_position', '20000 20 5 3 1'),
  ('run', 'sqlite_autoindex_run_1', '1000 1'),
  ('run', 'run_by_experiment', '1000 10'),
  ('prompt', 'sqlite_autoindex_prompt_1', '4000 4 1'),
  ('report_pair', 'report_pair', '5000 50 1'),
  ('report_pair', 'report_pair_by_run', '5000 50 50'),
  ('sample', NULL, '1000000'), ('sketch', NULL, '1000000');
ANALYZE sqlite_schema;
