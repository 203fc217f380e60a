-- greta's tables, format version 8. Rows are written through db/trace_writer only; people read
-- the views in queries/. Column comments are the documentation that `greta-db schema` prints.

CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

-- One execution of one configuration, or a directory level that only carries attributes for the
-- runs below it (its name is then a prefix of theirs).
CREATE TABLE run (
  id          INTEGER PRIMARY KEY,
  name        TEXT NOT NULL UNIQUE,               -- 2026-02-07/b3_66_v2/kv_aligned
  experiment  TEXT NOT NULL,                      -- literal directory: b3_66_v2
  family      TEXT,                               -- b3_66
  variant     TEXT,                               -- v2
  date        TEXT,                               -- YYYY-MM-DD; NULL when nothing says
  commit_sha  TEXT,                               -- commit of the engine that ran
  synthetic   INTEGER NOT NULL DEFAULT 0,         -- 1: generated data, not a real execution
  mode        TEXT,                               -- as_designed, kv_aligned, batch_invariant
  dtype       TEXT,                               -- bf16, fp16, f32, q4_k_m, ...
  seed        INTEGER,                            -- sampling or data seed
  hash_algo   TEXT NOT NULL DEFAULT 'fnv-256',    -- 'greta-1' (whole row), 'fnv-256' (first <= 256 values); of other tools, of all values: 'crc-32', 'md5' (its first 64 bits), 'torch-xor' (which knows no order)
  status      TEXT NOT NULL DEFAULT 'unknown'     -- unknown: imported, nobody recorded how it ended
              CHECK (status IN ('unknown', 'running', 'complete', 'failed')),
  started_at  TEXT,                               -- ISO 8601 UTC
  finished_at TEXT                                -- ISO 8601 UTC
) STRICT;
CREATE INDEX run_by_experiment ON run(experiment);

-- A prompt of one run; ids ascend in the order in which prompts were first seen.
CREATE TABLE prompt (
  id        INTEGER PRIMARY KEY,
  run_id    INTEGER NOT NULL REFERENCES run(id),
  name      TEXT NOT NULL,                        -- p0_short
  n_tokens  INTEGER,                              -- length of the prompt in tokens, when known
  text_sha256 TEXT,                               -- of the prompt's text, when known
  token_ids TEXT,                                 -- JSON array, when known
  UNIQUE (run_id, name)
) STRICT;

-- Phases and the side of the comparison they belong to.
CREATE TABLE phase (
  id   INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  side INTEGER NOT NULL CHECK (side IN (0, 1, 2)) -- 0 prefill, 1 decode, 2 neither: never paired
) STRICT;

-- What two sides of a comparison can be to each other, and what follows from it.
CREATE TABLE status (
  name     TEXT PRIMARY KEY,
  compared INTEGER NOT NULL,                      -- 1: both sides were there
  fails    INTEGER NOT NULL,                      -- 1: its run fails
  blamed   INTEGER NOT NULL                       -- 1: it has a cause
) STRICT, WITHOUT ROWID;

-- How large a difference is.
CREATE TABLE class (
  name  TEXT PRIMARY KEY,
  grade INTEGER NOT NULL                          -- the worse the greater; equal values have 0
) STRICT, WITHOUT ROWID;

-- What was compared: full (the whole row), prefix (the values that a historical hash covers), sample,
-- tensor (all of a tensor, whatever positions it covers).
CREATE TABLE scope (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

-- What a distance comes from: exact (value by value), sketch, sample (the sketch of one), hash (equal).
CREATE TABLE measure (
  name TEXT PRIMARY KEY,
  low  REAL,                                      -- with these two as factors, the 95 % interval of an estimate
  high REAL
) STRICT, WITHOUT ROWID;

-- What the two sides of a comparison are.
CREATE TABLE axis (
  name     TEXT PRIMARY KEY,                      -- phases: prefill and decode of a run; runs: two runs, phase by phase
  same_run INTEGER NOT NULL                       -- 1: both sides are of one run
) STRICT, WITHOUT ROWID;

-- What a condition can be: a view that joins this works the condition out once a row, and may name it often.
CREATE TABLE truth (yes INTEGER PRIMARY KEY) STRICT;

-- Canonical trace points. Ids ascend in forward order.
CREATE TABLE tensor (
  id    INTEGER PRIMARY KEY,
  ord   INTEGER NOT NULL,                         -- forward order within a layer
  name  TEXT NOT NULL UNIQUE,
  stage TEXT NOT NULL CHECK (stage IN ('embed', 'layer', 'head', 'unknown')),
  switch_on   INTEGER REFERENCES tensor(id),      -- when this tensor matched ...
  switch_cause TEXT                               -- ... this cause replaces tensor_name.cause
) STRICT;

-- Every name a trace point is written under, and the cause each name reports.
CREATE TABLE tensor_name (
  id        INTEGER PRIMARY KEY,
  name      TEXT NOT NULL UNIQUE,                 -- x_in
  tensor_id INTEGER NOT NULL REFERENCES tensor(id),
  cause     TEXT NOT NULL                         -- X_IN_DRIFT
) STRICT;

-- How names that other tools write become trace points, as `greta-db names` lists them: the first rule that
-- fits decides. What no rule knows keeps its name.
CREATE TABLE name_rule (
  id       INTEGER PRIMARY KEY,
  ord      INTEGER NOT NULL,                      -- rules are tried in this order, then by id
  pattern  TEXT NOT NULL UNIQUE CHECK (pattern <> ''), -- PCRE2, of the whole name; its first group, if it has one, is the layer
  tensor   TEXT NOT NULL CHECK (tensor <> ''),    -- tensor_name.name
  rule_set TEXT NOT NULL                          -- huggingface, msprobe, sglang, llama.cpp: shipped; own: added
) STRICT;

-- Cause of a first failure -> what it means.
CREATE TABLE cause (
  name       TEXT PRIMARY KEY,
  root_cause TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What the rows of a pair can look like, and what such rows usually come from.
CREATE TABLE finding (
  name    TEXT PRIMARY KEY,
  ord     INTEGER NOT NULL,                       -- the most telling first
  meaning TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Data flow: `from_id` feeds `to_id`.
CREATE TABLE edge (
  to_id   INTEGER NOT NULL REFERENCES tensor(id),
  from_id INTEGER NOT NULL REFERENCES tensor(id),
  layer   TEXT NOT NULL CHECK (layer IN ('same', 'previous', 'last')), -- where from_id lives
  kind    TEXT NOT NULL CHECK (kind IN ('input', 'copy', 'alias', 'weight', 'state')), -- copy: the same values; alias: by way of another copy; state: what earlier tokens left, which is not always traced
  PRIMARY KEY (to_id, from_id, layer)
) STRICT, WITHOUT ROWID;

-- Where a difference comes from, by what it was computed from. Every case has a row.
CREATE TABLE origin (
  worst_input INTEGER NOT NULL,                   -- of the nearest traced inputs: 0 none was traced, 1 match, 2 differs by rounding, 3 cannot be compared, 4 differs by more
  unsampled INTEGER NOT NULL,                     -- 1: whole layers lie between them and here, or this is a copy of what was not traced
  origin TEXT NOT NULL,                           -- ORIGIN, PROPAGATED, UNSAMPLED
  numeric_origin TEXT NOT NULL,                   -- the same, rounding inputs counting as clean
  PRIMARY KEY (worst_input, unsampled)
) STRICT, WITHOUT ROWID;

-- Relative L2 up to which a difference counts as rounding. The most specific row wins:
-- tensor and dtype, then tensor, then dtype, then neither.
CREATE TABLE tolerance (
  tensor_id INTEGER REFERENCES tensor(id),        -- NULL: any tensor
  dtype     TEXT,                                 -- NULL: any dtype
  rel_l2    REAL NOT NULL CHECK (rel_l2 >= 0)
) STRICT;

-- What rounding amounts to in clean probes of a model (`greta-infer calibrate`): for its runs it is the
-- tolerance, with a margin, where it is less than that of `tolerance`. The latest measurement of a place
-- stands.
CREATE TABLE noise_floor (
  tensor_id    INTEGER NOT NULL REFERENCES tensor(id),
  layer        INTEGER NOT NULL,
  model_sha256 TEXT NOT NULL,                     -- these three: as the run's attributes (its model_root, or model_sha256) and its dtype say
  dtype        TEXT NOT NULL,
  backend      TEXT NOT NULL,
  rel_l2       REAL NOT NULL CHECK (rel_l2 BETWEEN 0 AND 2), -- p99.9 over pairs of prefill and decode that differ
  gain         REAL CHECK (gain BETWEEN 0 AND 1e30), -- p99.9 of rel_l2 over that of the worst direct input; NULL: hardly any input differed
  pairs        INTEGER NOT NULL CHECK (pairs > 0), -- that differed
  measured_at  TEXT NOT NULL,                     -- ISO 8601 UTC
  PRIMARY KEY (tensor_id, layer, model_sha256, dtype, backend)
) STRICT, WITHOUT ROWID;

-- One content: a file, an archive member or an engine. Identity: run, leg, prompt and content.
CREATE TABLE source (
  id         INTEGER PRIMARY KEY,
  run_id     INTEGER NOT NULL REFERENCES run(id),
  leg        TEXT NOT NULL DEFAULT '',            -- prefill, decode; '' when the tool kept one file
  prompt     TEXT NOT NULL DEFAULT '',            -- prompt named by the file; '' when by its lines
  sha256     TEXT NOT NULL,                       -- of the decoded bytes; of an engine, random: tells its run from others
  shape      TEXT NOT NULL,                       -- stage_trace, metric, readout, log, report, engine, ...
  bytes      INTEGER NOT NULL,                    -- decoded
  lines      INTEGER NOT NULL DEFAULT 0,
  rows       INTEGER NOT NULL DEFAULT 0,          -- trace rows its lines gave, duplicates included
  duplicates INTEGER NOT NULL DEFAULT 0,          -- of those, equal to a row already there
  conflicts  INTEGER NOT NULL DEFAULT 0,          -- of those, kept as a further occurrence
  UNIQUE (run_id, leg, prompt, sha256)
) STRICT;
CREATE INDEX source_by_content ON source(sha256);

-- Where that content was found.
CREATE TABLE source_location (
  source_id  INTEGER NOT NULL REFERENCES source(id),
  path       TEXT NOT NULL,                       -- archive.tgz!member for archive members
  raw_sha256 TEXT,                                -- of the stored bytes; NULL for members
  raw_bytes  INTEGER,
  PRIMARY KEY (source_id, path)
) STRICT, WITHOUT ROWID;
CREATE INDEX source_location_by_raw ON source_location(raw_bytes, raw_sha256);

-- Fields that repeat from row to row, stored once per distinct tuple.
CREATE TABLE row_context (
  id             INTEGER PRIMARY KEY,
  route          TEXT,                            -- VALU, MFMA, BLAS, EMBED_LOOKUP_PREFILL, ...
  src_kind       TEXT,
  phase_raw      TEXT,                            -- phase as written, where it differs
  seq_len        INTEGER,
  tokens_total   INTEGER,
  token_index    INTEGER,                         -- row inside the chunk buffer, not a position
  kv_pos         INTEGER,
  stride_elems   INTEGER,
  alloc_bytes    INTEGER,
  prompt_tokens  INTEGER,
  decode_step    INTEGER,
  extra          TEXT                             -- JSON object: fields with no column, and raw text of bad values
) STRICT;

-- One traced tensor row. Everything up to `nth` is the key; up to tensor_id it is the row's place and
-- side, where a partner is one seek away. Rows of one place and side that differ in phase, step or name,
-- or in content, are all kept. No foreign keys: the writer
-- takes ids from the dictionaries, and `greta-db check` verifies them.
CREATE TABLE trace_row (
  run_id     INTEGER NOT NULL,
  prompt_id  INTEGER NOT NULL,
  side       INTEGER NOT NULL,                    -- phase.side, so that a partner is one seek away
  pos_id     INTEGER NOT NULL,                    -- absolute position; -1 unknown
  layer      INTEGER NOT NULL,                    -- -1 after the stack in old files
  tensor_id  INTEGER NOT NULL,                    -- canonical
  nth        INTEGER NOT NULL CHECK (nth >= 0),   -- 0, then 1, 2, ...: rows of one side at one place, in an order that is not that of arrival
  crowded    INTEGER NOT NULL DEFAULT 1,          -- 0: the only row of its side at its place; 1: there may be others
  phase_id   INTEGER NOT NULL,
  step       INTEGER NOT NULL,                    -- 0 prefill, then one per token; -1 unknown
  name_id    INTEGER NOT NULL,                    -- tensor_name as written
  token_id   INTEGER,
  logical_tok_idx INTEGER,
  n          INTEGER,                             -- values that hash and statistics cover
  hash       INTEGER,                             -- 64-bit pattern
  min        REAL,
  max        REAL,
  mean       REAL,
  abs_sum    REAL,
  nan        INTEGER,
  inf        INTEGER,
  nz_count   INTEGER,
  flags      INTEGER NOT NULL,                    -- 1: a statistic was written as NaN or inf; 2: statistics derived from the sample; 4: a field was rejected; 8: only a document states the row; 16: its hash is by that of 'greta-1' and 'fnv-256' that run.hash_algo is not; 32: it covers a whole tensor, not a position
  vector_id  INTEGER,                             -- sketch.id and sample.id
  ptr        INTEGER,
  offset_bytes INTEGER,
  context_id INTEGER,
  source_id  INTEGER NOT NULL,
  line       INTEGER NOT NULL,                    -- of the source; for an engine, its row number
  PRIMARY KEY (run_id, prompt_id, side, pos_id, layer, tensor_id, nth)
) STRICT, WITHOUT ROWID;

CREATE INDEX trace_row_unplaced ON trace_row(run_id, prompt_id, side, layer, tensor_id, step) WHERE pos_id = -1;
CREATE INDEX trace_row_nonfinite ON trace_row(run_id, prompt_id, side, pos_id) WHERE nan > 0 OR inf > 0 OR flags & 1;

-- Positions that trace_row has rows of, so that nobody has to look through the rows for them.
CREATE TABLE traced_position (
  run_id    INTEGER NOT NULL,
  prompt_id INTEGER NOT NULL,
  side      INTEGER NOT NULL,
  pos_id    INTEGER NOT NULL,
  demands   INTEGER NOT NULL,                     -- 1: prefill_last traced here, so rows of the other side must pair
  PRIMARY KEY (run_id, prompt_id, side, pos_id)
) STRICT, WITHOUT ROWID;

-- How often a row came again with the same content.
CREATE TABLE trace_repeat (
  run_id INTEGER NOT NULL, prompt_id INTEGER NOT NULL, side INTEGER NOT NULL,
  pos_id INTEGER NOT NULL, layer INTEGER NOT NULL, tensor_id INTEGER NOT NULL,
  nth    INTEGER NOT NULL,
  count  INTEGER NOT NULL,                        -- beyond the first
  PRIMARY KEY (run_id, prompt_id, side, pos_id, layer, tensor_id, nth)
) STRICT, WITHOUT ROWID;

-- Count-sketch of a row: two maps of 16 buckets (docs/fingerprint.md).
CREATE TABLE sketch (
  id INTEGER PRIMARY KEY,
  n  INTEGER NOT NULL,                            -- values it covers
  derived INTEGER NOT NULL,                       -- 1: made from a stored sample at ingest
  sum_sq REAL NOT NULL,                           -- squared L2 norm
  s0 REAL NOT NULL, s1 REAL NOT NULL, s2 REAL NOT NULL, s3 REAL NOT NULL,
  s4 REAL NOT NULL, s5 REAL NOT NULL, s6 REAL NOT NULL, s7 REAL NOT NULL,
  s8 REAL NOT NULL, s9 REAL NOT NULL, s10 REAL NOT NULL, s11 REAL NOT NULL,
  s12 REAL NOT NULL, s13 REAL NOT NULL, s14 REAL NOT NULL, s15 REAL NOT NULL,
  s16 REAL NOT NULL, s17 REAL NOT NULL, s18 REAL NOT NULL, s19 REAL NOT NULL,
  s20 REAL NOT NULL, s21 REAL NOT NULL, s22 REAL NOT NULL, s23 REAL NOT NULL,
  s24 REAL NOT NULL, s25 REAL NOT NULL, s26 REAL NOT NULL, s27 REAL NOT NULL,
  s28 REAL NOT NULL, s29 REAL NOT NULL, s30 REAL NOT NULL, s31 REAL NOT NULL
) STRICT;

-- Leading values of a row, f32 little-endian.
CREATE TABLE sample (
  id   INTEGER PRIMARY KEY,
  n    INTEGER NOT NULL,
  data BLOB NOT NULL
) STRICT;

-- How the two rows of a pair differ, value by value, as an engine knows it that had both in memory.
-- It speaks of rows with these hashes; of other rows at that place it says nothing.
CREATE TABLE difference (
  run_id       INTEGER NOT NULL,
  prompt_id    INTEGER NOT NULL,
  pos_id       INTEGER NOT NULL,
  layer        INTEGER NOT NULL,
  tensor_id    INTEGER NOT NULL,
  prefill_hash INTEGER NOT NULL,                  -- 64-bit pattern
  decode_hash  INTEGER NOT NULL,                  -- 64-bit pattern, another one
  n            INTEGER NOT NULL,                  -- values of each row
  differing    INTEGER NOT NULL,                  -- of those, with other bits; at least 1, every NaN is alike
  first_at     INTEGER NOT NULL,                  -- index of the first of them
  last_at      INTEGER NOT NULL,                  -- index of the last
  rel_l2       REAL,                              -- L2 distance over the larger norm; NULL: a value is not finite
  max_abs      REAL NOT NULL,                     -- greatest distance of two finite values
  max_abs_at   INTEGER,                           -- its index; NULL: no finite values differ
  max_ulp      INTEGER NOT NULL,                  -- greatest number of floats between two finite values, 1 for neighbours
  heads        INTEGER NOT NULL,                  -- that the segments are, as many of them each; 0: segments are equal slices
  segments     INTEGER NOT NULL,                  -- 1 to 32
  -- share of each segment in the squared distance; NULL beyond `segments`, all 0 without a distance
  p0 REAL, p1 REAL, p2 REAL, p3 REAL,
  p4 REAL, p5 REAL, p6 REAL, p7 REAL,
  p8 REAL, p9 REAL, p10 REAL, p11 REAL,
  p12 REAL, p13 REAL, p14 REAL, p15 REAL,
  p16 REAL, p17 REAL, p18 REAL, p19 REAL,
  p20 REAL, p21 REAL, p22 REAL, p23 REAL,
  p24 REAL, p25 REAL, p26 REAL, p27 REAL,
  p28 REAL, p29 REAL, p30 REAL, p31 REAL,
  first_segment INTEGER AS (                      -- the first with a share
    CASE WHEN p0 > 0 THEN 0 WHEN p1 > 0 THEN 1 WHEN p2 > 0 THEN 2 WHEN p3 > 0 THEN 3
    WHEN p4 > 0 THEN 4 WHEN p5 > 0 THEN 5 WHEN p6 > 0 THEN 6 WHEN p7 > 0 THEN 7 WHEN p8 > 0 THEN 8
    WHEN p9 > 0 THEN 9 WHEN p10 > 0 THEN 10 WHEN p11 > 0 THEN 11 WHEN p12 > 0 THEN 12
    WHEN p13 > 0 THEN 13 WHEN p14 > 0 THEN 14 WHEN p15 > 0 THEN 15 WHEN p16 > 0 THEN 16
    WHEN p17 > 0 THEN 17 WHEN p18 > 0 THEN 18 WHEN p19 > 0 THEN 19 WHEN p20 > 0 THEN 20
    WHEN p21 > 0 THEN 21 WHEN p22 > 0 THEN 22 WHEN p23 > 0 THEN 23 WHEN p24 > 0 THEN 24
    WHEN p25 > 0 THEN 25 WHEN p26 > 0 THEN 26 WHEN p27 > 0 THEN 27 WHEN p28 > 0 THEN 28
    WHEN p29 > 0 THEN 29 WHEN p30 > 0 THEN 30 WHEN p31 > 0 THEN 31 END) STORED,
  last_segment INTEGER AS (                       -- the last
    CASE WHEN p31 > 0 THEN 31 WHEN p30 > 0 THEN 30 WHEN p29 > 0 THEN 29 WHEN p28 > 0 THEN 28
    WHEN p27 > 0 THEN 27 WHEN p26 > 0 THEN 26 WHEN p25 > 0 THEN 25 WHEN p24 > 0 THEN 24
    WHEN p23 > 0 THEN 23 WHEN p22 > 0 THEN 22 WHEN p21 > 0 THEN 21 WHEN p20 > 0 THEN 20
    WHEN p19 > 0 THEN 19 WHEN p18 > 0 THEN 18 WHEN p17 > 0 THEN 17 WHEN p16 > 0 THEN 16
    WHEN p15 > 0 THEN 15 WHEN p14 > 0 THEN 14 WHEN p13 > 0 THEN 13 WHEN p12 > 0 THEN 12
    WHEN p11 > 0 THEN 11 WHEN p10 > 0 THEN 10 WHEN p9 > 0 THEN 9 WHEN p8 > 0 THEN 8
    WHEN p7 > 0 THEN 7 WHEN p6 > 0 THEN 6 WHEN p5 > 0 THEN 5 WHEN p4 > 0 THEN 4 WHEN p3 > 0 THEN 3
    WHEN p2 > 0 THEN 2 WHEN p1 > 0 THEN 1 WHEN p0 > 0 THEN 0 END) STORED,
  in_segments INTEGER AS (                        -- how many have one
    ifnull(p0 > 0, 0) + ifnull(p1 > 0, 0) + ifnull(p2 > 0, 0) + ifnull(p3 > 0, 0)
    + ifnull(p4 > 0, 0) + ifnull(p5 > 0, 0) + ifnull(p6 > 0, 0) + ifnull(p7 > 0, 0)
    + ifnull(p8 > 0, 0) + ifnull(p9 > 0, 0) + ifnull(p10 > 0, 0) + ifnull(p11 > 0, 0)
    + ifnull(p12 > 0, 0) + ifnull(p13 > 0, 0) + ifnull(p14 > 0, 0) + ifnull(p15 > 0, 0)
    + ifnull(p16 > 0, 0) + ifnull(p17 > 0, 0) + ifnull(p18 > 0, 0) + ifnull(p19 > 0, 0)
    + ifnull(p20 > 0, 0) + ifnull(p21 > 0, 0) + ifnull(p22 > 0, 0) + ifnull(p23 > 0, 0)
    + ifnull(p24 > 0, 0) + ifnull(p25 > 0, 0) + ifnull(p26 > 0, 0) + ifnull(p27 > 0, 0)
    + ifnull(p28 > 0, 0) + ifnull(p29 > 0, 0) + ifnull(p30 > 0, 0) + ifnull(p31 > 0, 0)) STORED,
  top_share REAL AS (                             -- the greatest share
    max(ifnull(p0, 0), ifnull(p1, 0), ifnull(p2, 0), ifnull(p3, 0), ifnull(p4, 0), ifnull(p5, 0),
    ifnull(p6, 0), ifnull(p7, 0), ifnull(p8, 0), ifnull(p9, 0), ifnull(p10, 0),
    ifnull(p11, 0), ifnull(p12, 0), ifnull(p13, 0), ifnull(p14, 0), ifnull(p15, 0),
    ifnull(p16, 0), ifnull(p17, 0), ifnull(p18, 0), ifnull(p19, 0), ifnull(p20, 0),
    ifnull(p21, 0), ifnull(p22, 0), ifnull(p23, 0), ifnull(p24, 0), ifnull(p25, 0),
    ifnull(p26, 0), ifnull(p27, 0), ifnull(p28, 0), ifnull(p29, 0), ifnull(p30, 0),
    ifnull(p31, 0))) STORED,
  top_segment INTEGER AS (                        -- whose it is, the first of several
    CASE top_share WHEN p0 THEN 0 WHEN p1 THEN 1 WHEN p2 THEN 2 WHEN p3 THEN 3 WHEN p4 THEN 4
    WHEN p5 THEN 5 WHEN p6 THEN 6 WHEN p7 THEN 7 WHEN p8 THEN 8 WHEN p9 THEN 9 WHEN p10 THEN 10
    WHEN p11 THEN 11 WHEN p12 THEN 12 WHEN p13 THEN 13 WHEN p14 THEN 14 WHEN p15 THEN 15
    WHEN p16 THEN 16 WHEN p17 THEN 17 WHEN p18 THEN 18 WHEN p19 THEN 19 WHEN p20 THEN 20
    WHEN p21 THEN 21 WHEN p22 THEN 22 WHEN p23 THEN 23 WHEN p24 THEN 24 WHEN p25 THEN 25
    WHEN p26 THEN 26 WHEN p27 THEN 27 WHEN p28 THEN 28 WHEN p29 THEN 29 WHEN p30 THEN 30
    WHEN p31 THEN 31 END) STORED,
  PRIMARY KEY (run_id, prompt_id, pos_id, layer, tensor_id, prefill_hash, decode_hash)
) STRICT, WITHOUT ROWID;

-- What a row of logits chose: the readout that LM-head questions need.
CREATE TABLE readout (
  run_id     INTEGER NOT NULL REFERENCES run(id),
  prompt_id  INTEGER NOT NULL REFERENCES prompt(id),
  side       INTEGER NOT NULL,
  step       INTEGER NOT NULL,                    -- -1 unknown
  pos_id     INTEGER NOT NULL,                    -- -1 unknown
  name_id    INTEGER NOT NULL REFERENCES tensor_name(id),
  top1_id    INTEGER,
  top1_logit REAL,
  top2_id    INTEGER,
  top2_logit REAL,
  gap        REAL,                                -- top1_logit - top2_logit
  vocab      INTEGER,
  route      TEXT,                                -- LM-head route: MFMA, VALU, BLAS
  cpu_top1_id INTEGER,                            -- top-1 recomputed on the CPU
  cpu_agrees  INTEGER,                            -- 1 the CPU chose the same, 0 it did not
  norm_error   REAL,                              -- relative L2 distance of the final norm from double arithmetic, 1e30 when not finite; NULL: not worked out
  logits_error REAL,                              -- the same of the logits
  source_id  INTEGER NOT NULL REFERENCES source(id),
  line       INTEGER NOT NULL,
  PRIMARY KEY (run_id, prompt_id, side, step, pos_id, name_id)
) STRICT, WITHOUT ROWID;

-- What a run declared it would trace. Fewer rows than this is INCOMPLETE, never PASS.
CREATE TABLE plan (
  run_id    INTEGER NOT NULL REFERENCES run(id),
  prompt_id INTEGER NOT NULL REFERENCES prompt(id),
  side      INTEGER NOT NULL,
  layer     INTEGER NOT NULL,
  tensor_id INTEGER NOT NULL REFERENCES tensor(id),
  PRIMARY KEY (run_id, prompt_id, side, layer, tensor_id)
) STRICT, WITHOUT ROWID;

-- What every source says about a run, with its rank (lower wins); see the view stated_attribute.
CREATE TABLE attribute (
  id        INTEGER PRIMARY KEY,
  run_id    INTEGER NOT NULL REFERENCES run(id),
  dim       TEXT NOT NULL,                        -- dtype, seed, commit, date, span, host, trace_rows (that the run wrote), ...
  value     TEXT NOT NULL,
  rank      INTEGER NOT NULL,                     -- 0 path or engine, 1 perf.json, 2 leaf metadata or config, 3 summary.config, 4 document
  leg       TEXT NOT NULL DEFAULT '',
  source_id INTEGER REFERENCES source(id)         -- NULL: the path itself
) STRICT;
CREATE UNIQUE INDEX attribute_once ON attribute(run_id, dim, value, rank, leg, ifnull(source_id, 0));
CREATE INDEX attribute_model ON attribute(value, run_id) WHERE dim IN ('model_root', 'model_sha256');

-- That a run began or ended, as a source says it: run.status follows from all of them.
CREATE TABLE run_event (
  source_id INTEGER NOT NULL REFERENCES source(id),
  kind      TEXT NOT NULL CHECK (kind IN ('start', 'complete', 'failed')),
  nth       INTEGER NOT NULL,                     -- 1, 2, ... of this kind in the source
  run_id    INTEGER NOT NULL REFERENCES run(id),
  at        TEXT NOT NULL,                        -- ISO 8601 UTC; '' not said
  PRIMARY KEY (source_id, kind, nth)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_event_by_run ON run_event(run_id);

-- A measured number of a run.
CREATE TABLE run_metric (
  id        INTEGER PRIMARY KEY,
  run_id    INTEGER NOT NULL REFERENCES run(id),
  leg       TEXT NOT NULL DEFAULT '',
  prompt    TEXT NOT NULL DEFAULT '',
  name      TEXT NOT NULL,                        -- wall_time_sec, metrics.max_abs_diff, ...
  value     REAL,                                 -- NULL: the source says null, or text
  text      TEXT NOT NULL,                        -- as written
  source_id INTEGER NOT NULL REFERENCES source(id)
) STRICT;
CREATE INDEX run_metric_by_run ON run_metric(run_id, name);

-- A tagged line of a run log.
CREATE TABLE log_event (
  source_id INTEGER NOT NULL REFERENCES source(id),
  line      INTEGER NOT NULL,
  seq       INTEGER NOT NULL,                     -- 0, then 1, ... for further events of one line
  run_id    INTEGER NOT NULL REFERENCES run(id),
  prompt    TEXT NOT NULL,
  tag       TEXT NOT NULL,                        -- ROPE_DIAG
  step      INTEGER,
  fields    TEXT NOT NULL,                        -- JSON object of the k=v tokens
  text      TEXT NOT NULL,                        -- as written
  PRIMARY KEY (source_id, line, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX log_event_by_run ON log_event(run_id, tag);

-- A table row of a document, every table kept.
CREATE TABLE document_row (
  source_id INTEGER NOT NULL REFERENCES source(id),
  line      INTEGER NOT NULL,
  section   TEXT NOT NULL,                        -- nearest heading
  cells     TEXT NOT NULL,                        -- JSON object: column -> cell
  PRIMARY KEY (source_id, line)
) STRICT, WITHOUT ROWID;

-- A document that judges a run.
CREATE TABLE report (
  source_id INTEGER PRIMARY KEY REFERENCES source(id),
  run_id    INTEGER NOT NULL REFERENCES run(id),
  stage     INTEGER NOT NULL                      -- by file name: 1000000 final, N for vN, else 0
) STRICT;
CREATE INDEX report_by_run ON report(run_id);

-- A verdict table that some tool printed: one row per pair it lists.
CREATE TABLE report_pair (
  source_id INTEGER NOT NULL REFERENCES source(id),
  line      INTEGER NOT NULL,
  run_id    INTEGER NOT NULL REFERENCES run(id),
  prompt_id INTEGER NOT NULL REFERENCES prompt(id),
  layer     INTEGER,
  name_id   INTEGER REFERENCES tensor_name(id),   -- NULL: the table names no tensor
  token_id  INTEGER,
  pos_id    INTEGER,
  status    TEXT NOT NULL CHECK (status IN ('MATCH', 'DRIFT', 'MISSING')),
  cause     TEXT,
  root_cause TEXT,
  details   TEXT,
  PRIMARY KEY (source_id, line)
) STRICT, WITHOUT ROWID;
CREATE INDEX report_pair_by_run ON report_pair(run_id, source_id);

-- A verdict or count that a document states about a run. A claim is not evidence.
CREATE TABLE report_claim (
  id        INTEGER PRIMARY KEY,
  source_id INTEGER NOT NULL REFERENCES source(id),
  run_id    INTEGER NOT NULL REFERENCES run(id),
  line      INTEGER NOT NULL,
  kind      TEXT NOT NULL,                        -- verdict, status, root_cause, total_pairs, pass, ...
  value     TEXT NOT NULL,                        -- PASS, FAIL, 48, ...
  text      TEXT NOT NULL
) STRICT;
CREATE INDEX report_claim_by_run ON report_claim(run_id);

-- Every line or file that was not taken as it stands. Nothing is dropped.
CREATE TABLE ingest_error (
  id        INTEGER PRIMARY KEY,
  source_id INTEGER REFERENCES source(id),        -- NULL: the file gave no source
  file      TEXT NOT NULL,                        -- archive.tgz!member for archive members
  line      INTEGER NOT NULL,                     -- 0: the file as a whole
  severity  TEXT NOT NULL CHECK (severity IN ('error', 'warning')),
  reason    TEXT NOT NULL,
  raw       BLOB,                                 -- the rejected bytes
  about     TEXT                                  -- without source: name of the run that the path says it belongs to
) STRICT;
CREATE UNIQUE INDEX ingest_error_once ON ingest_error(file, line, reason, ifnull(source_id, 0));
CREATE INDEX ingest_error_of_source ON ingest_error(source_id) WHERE severity = 'error' AND source_id IS NOT NULL;
CREATE INDEX ingest_error_about ON ingest_error(about) WHERE severity = 'error' AND about IS NOT NULL;

-- An ingest that has not ended: it runs, or was interrupted. Written before its first row.
CREATE TABLE ingest (
  id         INTEGER PRIMARY KEY,
  started_at TEXT NOT NULL,                       -- ISO 8601 UTC
  host       TEXT NOT NULL,                       -- of the process
  pid        INTEGER NOT NULL,
  process    TEXT NOT NULL,                       -- what tells it from a later process of that pid
  run        TEXT NOT NULL,                       -- name of the run that all files belong to; '' : from path and content
  paths      TEXT NOT NULL                        -- JSON array of what it was given: --follow, absolute paths; {"hex": bytes} of one that is not UTF-8
) STRICT;

-- Runs that it has rows or facts of: INCOMPLETE until it ends.
CREATE TABLE ingest_run (
  run_id    INTEGER NOT NULL REFERENCES run(id),
  ingest_id INTEGER NOT NULL REFERENCES ingest(id),
  PRIMARY KEY (run_id, ingest_id)
) STRICT, WITHOUT ROWID;

-- The rows of the view tally of runs that were judged, kept so that a verdict is read and not worked
-- out. A run without rows here is worked out when asked for. Where nobody says, a text is NULL.
CREATE TABLE kept_tally (
  run_id    INTEGER NOT NULL REFERENCES run(id),
  prompt_id INTEGER NOT NULL,                     -- 0: of the run as a whole
  status    TEXT NOT NULL,                        -- of pair; UNMET, LOST, REFUTED, RUN: see tally
  class     TEXT,                                 -- ROUNDING, DIVERGENT, UNKNOWN
  scope     TEXT,                                 -- full, prefix, sample
  cause     TEXT,                                 -- ATTN_OUT_DRIFT, ...
  count     INTEGER NOT NULL,
  pairs     INTEGER NOT NULL,                     -- of those, with a row on both sides
  claimed   INTEGER NOT NULL,                     -- of those, pairs with a row that only a document states
  elsewhere INTEGER NOT NULL,                     -- 1: what is missing was traced at another position
  forward_layer INTEGER,                          -- these and the next: the first of them in forward order
  layer     INTEGER,
  tensor_id INTEGER,
  name_id   INTEGER,
  pos_id    INTEGER,
  token_id  INTEGER,
  report_line INTEGER                             -- where a report's table is the evidence
) STRICT;
CREATE INDEX kept_tally_by_run ON kept_tally(run_id);

-- The rows of the view verdict_part of runs that were judged; see kept_tally.
CREATE TABLE kept_verdict (
  run_id    INTEGER NOT NULL REFERENCES run(id),
  prompt_id INTEGER NOT NULL,                     -- 0: of the run as a whole
  pairs INTEGER NOT NULL,                         -- with a row on both sides
  pass INTEGER NOT NULL,                          -- MATCH
  fail INTEGER NOT NULL,                          -- status.fails
  drift INTEGER NOT NULL,                         -- DRIFT
  nonfinite INTEGER NOT NULL,                     -- NONFINITE, also of rows without a partner
  rounding INTEGER NOT NULL,                      -- DRIFT within tolerance; sketches, and they are equal
  divergent INTEGER NOT NULL,                     -- DRIFT beyond it
  unmeasured INTEGER NOT NULL,                    -- DRIFT with nothing to measure it by
  missing INTEGER NOT NULL,                       -- must have a partner and have none
  missing_elsewhere INTEGER NOT NULL,             -- 1: one of them was traced at another position
  decode_only INTEGER NOT NULL,                   -- decode rows where nothing demands a partner
  prefill_only INTEGER NOT NULL,                  -- prefill rows that decode has no partner for and needs none
  claimed INTEGER NOT NULL,                       -- pairs with a row that only a document states
  incomparable INTEGER NOT NULL,                  -- pairs that nothing decides
  unmet INTEGER NOT NULL,                         -- rows fewer than planned, or than the run says it wrote
  partial INTEGER NOT NULL,                       -- compared by less than the whole row
  fail_cause TEXT,                                -- these: of the first that fails, in forward order; a missing one before others
  fail_layer INTEGER,
  fail_tensor_id INTEGER,
  fail_name_id INTEGER,
  fail_pos_id INTEGER,
  fail_token_id INTEGER,
  fail_report_line INTEGER,
  fail_prompt_id INTEGER,
  drift_cause TEXT,                               -- these: of the first that fails by its values
  drift_layer INTEGER,
  drift_tensor_id INTEGER,
  drift_name_id INTEGER,
  drift_pos_id INTEGER,
  drift_token_id INTEGER,
  drift_report_line INTEGER,
  drift_prompt_id INTEGER,
  divergent_cause TEXT,                           -- these: of the first that fails by more than rounding
  divergent_layer INTEGER,
  divergent_tensor_id INTEGER,
  divergent_name_id INTEGER,
  divergent_pos_id INTEGER,
  divergent_token_id INTEGER,
  divergent_report_line INTEGER,
  divergent_prompt_id INTEGER,
  PRIMARY KEY (run_id, prompt_id)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER kept_tally_deleted AFTER DELETE ON kept_tally BEGIN
  DELETE FROM kept_verdict WHERE run_id = OLD.run_id;
  DELETE FROM kept_diff WHERE run_a_id = OLD.run_id;
  DELETE FROM kept_diff WHERE run_b_id = OLD.run_id;
END;

-- The rows of the view diff_part of runs that were held against the one before them, where both were
-- judged. Two runs without a row here are compared when asked for.
CREATE TABLE kept_diff (
  run_a_id INTEGER NOT NULL REFERENCES run(id),
  run_b_id INTEGER NOT NULL REFERENCES run(id),
  why_not  TEXT,                                  -- why they cannot be compared; NULL: they can
  pairs INTEGER NOT NULL,                         -- rows of both
  compared INTEGER NOT NULL,                      -- of those, where something decides
  match INTEGER NOT NULL,                         -- bitwise equal
  rounding INTEGER NOT NULL,                      -- DRIFT within tolerance
  divergent INTEGER NOT NULL,                     -- DRIFT beyond it
  unknown INTEGER NOT NULL,                       -- DRIFT with nothing to measure it by; AMBIGUOUS, CONFLICT
  nonfinite INTEGER NOT NULL,                     -- NaN or inf on either side
  incomparable INTEGER NOT NULL,                  -- nothing decides, or another token
  alike INTEGER NOT NULL,                         -- of those, with equal sketches that nothing else compares
  only_a INTEGER NOT NULL,                        -- rows that run b does not have
  only_b INTEGER NOT NULL,                        -- rows that run a does not have
  prompt_id INTEGER,                              -- these, of run a: the first that fails, in forward order
  phase_id INTEGER,
  pos_id INTEGER,
  layer INTEGER,
  tensor_id INTEGER,
  divergent_prompt_id INTEGER,                    -- these: the first that fails by more than rounding
  divergent_phase_id INTEGER,
  divergent_pos_id INTEGER,
  divergent_layer INTEGER,
  divergent_tensor_id INTEGER,
  origin TEXT,                                    -- of that, else of the first: ORIGIN, PROPAGATED, UNSAMPLED
  caused_by TEXT,                                 -- of that, in words: another token
  PRIMARY KEY (run_a_id, run_b_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX kept_diff_by_b ON kept_diff(run_b_id);

-- The lineage of every run, as the view run_lineage has it: experiment/mode/backend/dtype/model/suite,
-- and /kv_cache=TYPE where that is not f32.
CREATE TABLE lineage_member (
  run_id   INTEGER PRIMARY KEY REFERENCES run(id),
  lineage  TEXT NOT NULL,
  injected INTEGER NOT NULL,                      -- 1: with a fault on purpose, so that no run is held against it
  run      TEXT NOT NULL,                         -- these as run has them; '' unknown
  date     TEXT NOT NULL,
  started_at TEXT NOT NULL,
  seed     INTEGER,
  synthetic INTEGER NOT NULL
) STRICT;
CREATE INDEX lineage_member_by_time ON lineage_member(lineage, seed, synthetic, date, started_at, length(run), run);

-- The run that those of its lineage are held against, where somebody chose one (`greta-db baseline set`).
CREATE TABLE pinned_baseline (
  lineage   TEXT PRIMARY KEY,
  run_id    INTEGER NOT NULL REFERENCES run(id),
  pinned_at TEXT NOT NULL                         -- ISO 8601 UTC
) STRICT, WITHOUT ROWID;

-- Differences that somebody accepts until a day (`greta-db waive`): they do not fail the gate. The verdict of
-- a run stays what it is, and nothing but a difference of values is waived. What is NULL is any.
CREATE TABLE waiver (
  id         INTEGER PRIMARY KEY,
  tensor     TEXT NOT NULL,                       -- tensor.name: by names throughout, so that ids may change
  layer      INTEGER,
  run        TEXT,                                -- run.name
  experiment TEXT,                                -- run.experiment
  lineage    TEXT,                                -- as lineage_member has it
  until      TEXT NOT NULL,                       -- YYYY-MM-DD: its last day, and of the runs that it is for
  reason     TEXT NOT NULL CHECK (trim(reason) <> ''),
  created_at TEXT NOT NULL,                       -- ISO 8601 UTC
  created_by TEXT NOT NULL                        -- user@host
) STRICT;

-- Commits of the engine's repository (`greta-db commits`), so that runs stand in their order.
CREATE TABLE commit_node (
  sha          TEXT PRIMARY KEY,                  -- in full
  ord          INTEGER NOT NULL,                  -- less than those of its children
  committed_at TEXT NOT NULL,                     -- ISO 8601 UTC
  subject      TEXT NOT NULL                      -- first line of its message
) STRICT, WITHOUT ROWID;
CREATE TABLE commit_parent (
  sha    TEXT NOT NULL,
  nth    INTEGER NOT NULL,                        -- 0: the first parent
  parent TEXT NOT NULL,
  PRIMARY KEY (sha, nth)
) STRICT, WITHOUT ROWID;
CREATE INDEX commit_parent_by_parent ON commit_parent(parent);

-- What is kept goes when anything under it changes. The writers say so themselves for trace rows that
-- they insert: a trigger would take a third of the speed of every insert.
CREATE TRIGGER trace_row_deleted AFTER DELETE ON trace_row BEGIN DELETE FROM kept_tally WHERE run_id = OLD.run_id; END;
CREATE TRIGGER trace_row_updated AFTER UPDATE ON trace_row BEGIN DELETE FROM kept_tally WHERE run_id IN (OLD.run_id, NEW.run_id); END;
CREATE TRIGGER trace_row_moved AFTER UPDATE OF run_id, prompt_id, side, pos_id, layer, tensor_id, phase_id ON trace_row BEGIN
  UPDATE trace_row SET crowded = 1 WHERE run_id = NEW.run_id AND prompt_id = NEW.prompt_id AND side = NEW.side
    AND pos_id = NEW.pos_id AND layer = NEW.layer AND tensor_id = NEW.tensor_id AND NOT crowded;
  INSERT INTO traced_position VALUES (NEW.run_id, NEW.prompt_id, NEW.side, NEW.pos_id,
      NEW.phase_id = (SELECT id FROM phase WHERE name = 'prefill_last'))
    ON CONFLICT DO UPDATE SET demands = max(demands, excluded.demands);
END;
CREATE TRIGGER trace_repeat_inserted AFTER INSERT ON trace_repeat BEGIN DELETE FROM kept_tally WHERE run_id = NEW.run_id; END;
CREATE TRIGGER trace_repeat_deleted AFTER DELETE ON trace_repeat BEGIN DELETE FROM kept_tally WHERE run_id = OLD.run_id; END;
CREATE TRIGGER trace_repeat_updated AFTER UPDATE ON trace_repeat BEGIN DELETE FROM kept_tally WHERE run_id IN (OLD.run_id, NEW.run_id); END;
CREATE TRIGGER readout_inserted AFTER INSERT ON readout WHEN NEW.norm_error IS NOT NULL OR NEW.logits_error IS NOT NULL BEGIN DELETE FROM kept_tally WHERE run_id = NEW.run_id; END;
CREATE TRIGGER readout_deleted AFTER DELETE ON readout BEGIN DELETE FROM kept_tally WHERE run_id = OLD.run_id; END;
CREATE TRIGGER readout_updated AFTER UPDATE ON readout BEGIN DELETE FROM kept_tally WHERE run_id IN (OLD.run_id, NEW.run_id); END;
CREATE TRIGGER plan_inserted AFTER INSERT ON plan BEGIN DELETE FROM kept_tally WHERE run_id = NEW.run_id; END;
CREATE TRIGGER plan_deleted AFTER DELETE ON plan BEGIN DELETE FROM kept_tally WHERE run_id = OLD.run_id; END;
CREATE TRIGGER plan_updated AFTER UPDATE ON plan BEGIN DELETE FROM kept_tally WHERE run_id IN (OLD.run_id, NEW.run_id); END;
CREATE TRIGGER report_pair_inserted AFTER INSERT ON report_pair BEGIN DELETE FROM kept_tally WHERE run_id = NEW.run_id; END;
CREATE TRIGGER report_pair_deleted AFTER DELETE ON report_pair BEGIN DELETE FROM kept_tally WHERE run_id = OLD.run_id; END;
CREATE TRIGGER report_pair_updated AFTER UPDATE ON report_pair BEGIN DELETE FROM kept_tally WHERE run_id IN (OLD.run_id, NEW.run_id); END;
CREATE TRIGGER report_inserted AFTER INSERT ON report BEGIN DELETE FROM kept_tally WHERE run_id = NEW.run_id; END;
CREATE TRIGGER report_deleted AFTER DELETE ON report BEGIN DELETE FROM kept_tally WHERE run_id = OLD.run_id; END;
CREATE TRIGGER report_updated AFTER UPDATE ON report BEGIN DELETE FROM kept_tally WHERE run_id IN (OLD.run_id, NEW.run_id); END;
CREATE TRIGGER attribute_inserted AFTER INSERT ON attribute WHEN NEW.dim IN ('trace_rows', 'model_root', 'model_sha256', 'backend', 'trace.layers', 'trace.tensors', 'trace.phases') BEGIN DELETE FROM kept_tally WHERE run_id = NEW.run_id; END;
CREATE TRIGGER attribute_deleted AFTER DELETE ON attribute WHEN OLD.dim IN ('trace_rows', 'model_root', 'model_sha256', 'backend', 'trace.layers', 'trace.tensors', 'trace.phases') BEGIN DELETE FROM kept_tally WHERE run_id = OLD.run_id; END;
CREATE TRIGGER attribute_updated AFTER UPDATE ON attribute
  WHEN OLD.dim IN ('trace_rows', 'model_root', 'model_sha256', 'backend', 'trace.layers', 'trace.tensors', 'trace.phases') OR NEW.dim IN ('trace_rows', 'model_root', 'model_sha256', 'backend', 'trace.layers', 'trace.tensors', 'trace.phases') BEGIN DELETE FROM kept_tally WHERE run_id IN (OLD.run_id, NEW.run_id); END;
CREATE TRIGGER run_changed AFTER UPDATE OF id, name, dtype, hash_algo, status ON run BEGIN DELETE FROM kept_tally WHERE run_id IN (OLD.id, NEW.id); END;
CREATE TRIGGER traced_position_deleted AFTER DELETE ON traced_position BEGIN DELETE FROM kept_tally WHERE run_id = OLD.run_id; END;
CREATE TRIGGER traced_position_updated AFTER UPDATE ON traced_position BEGIN DELETE FROM kept_tally WHERE run_id IN (OLD.run_id, NEW.run_id); END;
CREATE TRIGGER sketch_deleted AFTER DELETE ON sketch BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER sketch_updated AFTER UPDATE ON sketch BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER sample_deleted AFTER DELETE ON sample BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER sample_updated AFTER UPDATE ON sample BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER difference_inserted AFTER INSERT ON difference BEGIN DELETE FROM kept_tally WHERE run_id = NEW.run_id; END;
CREATE TRIGGER difference_deleted AFTER DELETE ON difference BEGIN DELETE FROM kept_tally WHERE run_id = OLD.run_id; END;
CREATE TRIGGER difference_updated AFTER UPDATE ON difference BEGIN DELETE FROM kept_tally WHERE run_id IN (OLD.run_id, NEW.run_id); END;
CREATE TRIGGER tolerance_inserted AFTER INSERT ON tolerance BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER tolerance_deleted AFTER DELETE ON tolerance BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER tolerance_updated AFTER UPDATE ON tolerance BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER noise_floor_inserted AFTER INSERT ON noise_floor BEGIN
  DELETE FROM kept_tally WHERE run_id IN (SELECT run_id FROM attribute WHERE dim IN ('model_root', 'model_sha256') AND value = NEW.model_sha256); END;
CREATE TRIGGER noise_floor_deleted AFTER DELETE ON noise_floor BEGIN
  DELETE FROM kept_tally WHERE run_id IN (SELECT run_id FROM attribute WHERE dim IN ('model_root', 'model_sha256') AND value = OLD.model_sha256); END;
CREATE TRIGGER noise_floor_updated AFTER UPDATE ON noise_floor BEGIN
  DELETE FROM kept_tally WHERE run_id IN (SELECT run_id FROM attribute WHERE dim IN ('model_root', 'model_sha256') AND value IN (OLD.model_sha256, NEW.model_sha256)); END;
CREATE TRIGGER tensor_name_updated AFTER UPDATE ON tensor_name BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER tensor_updated AFTER UPDATE ON tensor BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER status_updated AFTER UPDATE ON status BEGIN DELETE FROM kept_tally WHERE true; END;
-- What decides which report table is a run's evidence.
CREATE TRIGGER source_location_inserted AFTER INSERT ON source_location BEGIN
  DELETE FROM kept_tally WHERE run_id = (SELECT run_id FROM report WHERE source_id = NEW.source_id); END;
CREATE TRIGGER source_location_deleted AFTER DELETE ON source_location BEGIN
  DELETE FROM kept_tally WHERE run_id = (SELECT run_id FROM report WHERE source_id = OLD.source_id); END;
CREATE TRIGGER source_location_updated AFTER UPDATE ON source_location BEGIN
  DELETE FROM kept_tally WHERE run_id IN (SELECT run_id FROM report WHERE source_id IN (OLD.source_id, NEW.source_id)); END;
CREATE TRIGGER traced_position_inserted AFTER INSERT ON traced_position BEGIN DELETE FROM kept_tally WHERE run_id = NEW.run_id; END;
CREATE TRIGGER run_deleted AFTER DELETE ON run BEGIN
  DELETE FROM kept_tally WHERE run_id = OLD.id;
  DELETE FROM lineage_member WHERE run_id = OLD.id;
  DELETE FROM pinned_baseline WHERE run_id = OLD.id;
  DELETE FROM waiver WHERE run = OLD.name;
END;
-- A prompt that is announced is asked for.
CREATE TRIGGER prompt_inserted AFTER INSERT ON prompt BEGIN DELETE FROM kept_tally WHERE run_id = NEW.run_id; END;
CREATE TRIGGER prompt_deleted AFTER DELETE ON prompt BEGIN DELETE FROM kept_tally WHERE run_id = OLD.run_id; END;
CREATE TRIGGER prompt_updated AFTER UPDATE OF run_id, name, n_tokens, text_sha256, token_ids ON prompt BEGIN
  DELETE FROM kept_tally WHERE run_id IN (OLD.run_id, NEW.run_id);
  DELETE FROM kept_diff WHERE run_a_id IN (OLD.run_id, NEW.run_id);
  DELETE FROM kept_diff WHERE run_b_id IN (OLD.run_id, NEW.run_id);
END;
-- Which lineage a run belongs to.
CREATE TRIGGER run_inserted AFTER INSERT ON run BEGIN
  INSERT INTO lineage_member SELECT * FROM run_lineage WHERE run_id = NEW.id; END;
CREATE TRIGGER run_lineage_updated AFTER UPDATE OF name, experiment, mode, dtype, date, started_at, seed, synthetic ON run BEGIN
  UPDATE lineage_member SET (lineage, injected, run, date, started_at, seed, synthetic)
    = (SELECT l.lineage, l.injected, l.run, l.date, l.started_at, l.seed, l.synthetic FROM run_lineage l WHERE l.run_id = NEW.id) WHERE run_id = NEW.id; END;
CREATE TRIGGER attribute_lineage_inserted AFTER INSERT ON attribute WHEN NEW.dim IN ('backend', 'model', 'model_file', 'suite', 'kv_cache', 'inject') BEGIN
  UPDATE lineage_member SET (lineage, injected) = (SELECT l.lineage, l.injected FROM run_lineage l WHERE l.run_id = NEW.run_id) WHERE run_id = NEW.run_id; END;
CREATE TRIGGER attribute_lineage_deleted AFTER DELETE ON attribute WHEN OLD.dim IN ('backend', 'model', 'model_file', 'suite', 'kv_cache', 'inject') BEGIN
  UPDATE lineage_member SET (lineage, injected) = (SELECT l.lineage, l.injected FROM run_lineage l WHERE l.run_id = OLD.run_id) WHERE run_id = OLD.run_id; END;
CREATE TRIGGER attribute_lineage_updated AFTER UPDATE ON attribute
  WHEN OLD.dim IN ('backend', 'model', 'model_file', 'suite', 'kv_cache', 'inject') OR NEW.dim IN ('backend', 'model', 'model_file', 'suite', 'kv_cache', 'inject') BEGIN
  UPDATE lineage_member SET (lineage, injected) = (SELECT l.lineage, l.injected FROM run_lineage l WHERE l.run_id = lineage_member.run_id)
  WHERE run_id IN (OLD.run_id, NEW.run_id); END;
-- What every verdict is made of.
CREATE TRIGGER phase_updated AFTER UPDATE ON phase BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER phase_deleted AFTER DELETE ON phase BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER tensor_deleted AFTER DELETE ON tensor BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER tensor_name_deleted AFTER DELETE ON tensor_name BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER status_inserted AFTER INSERT ON status BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER status_deleted AFTER DELETE ON status BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER class_inserted AFTER INSERT ON class BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER class_updated AFTER UPDATE ON class BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER class_deleted AFTER DELETE ON class BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER scope_inserted AFTER INSERT ON scope BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER scope_updated AFTER UPDATE ON scope BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER scope_deleted AFTER DELETE ON scope BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER measure_inserted AFTER INSERT ON measure BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER measure_updated AFTER UPDATE ON measure BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER measure_deleted AFTER DELETE ON measure BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER axis_inserted AFTER INSERT ON axis BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER axis_updated AFTER UPDATE ON axis BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER axis_deleted AFTER DELETE ON axis BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER truth_inserted AFTER INSERT ON truth BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER truth_updated AFTER UPDATE ON truth BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER truth_deleted AFTER DELETE ON truth BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER edge_inserted AFTER INSERT ON edge BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER edge_updated AFTER UPDATE ON edge BEGIN DELETE FROM kept_tally WHERE true; END;
CREATE TRIGGER edge_deleted AFTER DELETE ON edge BEGIN DELETE FROM kept_tally WHERE true; END;
