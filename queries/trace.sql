-- One row per traced tensor row, every name spelled out.
CREATE VIEW trace AS
SELECT
  r.name AS run,                                       -- run.name
  r.experiment AS experiment,                          -- literal directory: b3_66_v2
  r.mode AS mode,                                      -- as_designed, kv_aligned, batch_invariant; NULL unknown
  r.commit_sha AS commit_sha,                          -- commit of the engine that ran
  r.date AS date,                                      -- YYYY-MM-DD; NULL unknown
  q.name AS prompt,                                    -- prompt of the run
  h.name AS phase,                                     -- prefill_last, prefill, decode0, decode
  nullif(t.step, -1) AS step,                          -- 0 is prefill, then one per decoded token
  nullif(t.pos_id, -1) AS pos_id,                      -- absolute 0-based position; NULL: unknown, never paired
  t.layer AS layer,                                    -- -1: after the stack, in old files
  m.name AS tensor,                                    -- as written
  t.token_id AS token_id,                              -- NULL when the source has none
  t.logical_tok_idx AS logical_tok_idx,                -- NULL when the source has none
  t.n AS n,                                            -- values that hash and statistics cover
  CASE WHEN t.hash IS NOT NULL THEN printf('%llu', t.hash) END AS hash, -- unsigned decimal
  t.min AS min,                                        -- NULL also when it was written as NaN or inf: see extra
  t.max AS max,                                        -- the same
  t.mean AS mean,                                      -- the same
  t.abs_sum AS abs_sum,                                -- the same: sum of absolute values
  t.nan AS nan,                                        -- count of NaN
  t.inf AS inf,                                        -- count of +-inf
  t.nz_count AS nz_count,                              -- count of values that are not zero
  c.route AS route,                                    -- how it was computed: VALU, MFMA, BLAS, ...
  (SELECT min(l.path) FROM source_location l WHERE l.source_id = t.source_id) AS source_file, -- first path the source was found under
  t.line AS source_line,                               -- line there; row number for an engine
  k.name AS canonical_tensor,                          -- first name of the trace point
  CASE h.side WHEN 0 THEN 'prefill' WHEN 1 THEN 'decode' END AS side, -- prefill, decode; NULL neither
  CASE WHEN t.nth > 0 THEN (SELECT count(*) FROM trace_row o
    WHERE o.run_id = t.run_id AND o.prompt_id = t.prompt_id AND o.side = t.side
      AND o.pos_id = t.pos_id AND o.layer = t.layer AND o.tensor_id = t.tensor_id
      AND o.phase_id = t.phase_id AND o.step = t.step AND o.name_id = t.name_id
      AND o.nth < t.nth) ELSE 0 END AS occurrence,     -- 0, then 1, ... for different content under one key
  1 + ifnull((SELECT p.count FROM trace_repeat p
    WHERE p.run_id = t.run_id AND p.prompt_id = t.prompt_id AND p.side = t.side
      AND p.pos_id = t.pos_id AND p.layer = t.layer AND p.tensor_id = t.tensor_id
      AND p.nth = t.nth), 0) AS seen,    -- times this row was written
  (t.flags & 2) <> 0 AS derived,                       -- 1: statistics computed from the sample at ingest
  (SELECT s.n FROM sample s WHERE s.id = t.sample_id) AS sample_n,    -- values kept
  (SELECT s.data FROM sample s WHERE s.id = t.sample_id) AS sample,   -- f32 little-endian
  c.src_kind AS src_kind,                              -- buffer it was read from
  c.phase_raw AS phase_raw,                            -- phase as written, where it differs
  c.seq_len AS seq_len,                                -- as written
  c.tokens_total AS tokens_total,                      -- as written
  c.token_index AS token_index,                        -- row inside the chunk buffer
  c.kv_pos AS kv_pos,                                  -- as written
  c.stride_elems AS stride_elems,                      -- as written
  c.alloc_bytes AS alloc_bytes,                        -- as written
  c.prompt_tokens AS prompt_tokens,                    -- as written
  c.decode_step AS decode_step,                        -- as written
  t.ptr AS ptr,                                        -- address, as written
  t.offset_bytes AS offset_bytes,                      -- as written
  c.extra AS extra,                                    -- JSON: every other field, and the raw text of bad values
  (SELECT s.shape FROM source s WHERE s.id = t.source_id) AS shape,   -- stage_trace, metric, readout, ...
  t.run_id AS run_id,                                  -- run.id
  t.prompt_id AS prompt_id,                            -- prompt.id
  t.source_id AS source_id,                            -- source.id
  CASE WHEN t.flags & 32 THEN 'tensor' END AS scope    -- tensor: the row covers a whole tensor and is compared between runs only; NULL: one position
FROM run r
JOIN trace_row t ON t.run_id = r.id
JOIN prompt q ON q.id = t.prompt_id
JOIN phase h ON h.id = t.phase_id
JOIN tensor_name m ON m.id = t.name_id
JOIN tensor k ON k.id = t.tensor_id
LEFT JOIN row_context c ON c.id = t.context_id;
