-- greta's tables, format version 10. Rows are written through db/trace_writer only; people read
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
CREATE INDEX run_by_commit ON run(commit_sha);

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

-- What a distance comes from: exact (value by value), sketch, sample (the sketch of one), hash (equal).
CREATE TABLE measure (
  name TEXT PRIMARY KEY,
  low  REAL,                                      -- with these two as factors, the 95 % interval of an estimate
  high REAL
) STRICT, WITHOUT ROWID;

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
  passes  TEXT NOT NULL CHECK (passes IN ('relative', 'absolute', 'stored')), -- what of a difference of from_id passes on: relative L2; the greatest absolute distance of two values; relative, and to_id is stored in the type of the cache
  gain    REAL NOT NULL,                          -- that much of it, times this, explains a relative L2 difference of to_id
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
CREATE INDEX tolerance_by_tensor ON tolerance(tensor_id, dtype, rel_l2);

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
-- or in content, are all kept. Four columns say what the writer knows of such rows (view
-- standing); a row that is written by hand leaves them out, and a trigger works them out. No foreign keys:
-- the writer takes ids from the dictionaries, and `greta-db check` verifies them.
CREATE TABLE trace_row (
  run_id     INTEGER NOT NULL,
  prompt_id  INTEGER NOT NULL,
  side       INTEGER NOT NULL,                    -- phase.side, so that a partner is one seek away
  pos_id     INTEGER NOT NULL,                    -- absolute position; -1 unknown
  layer      INTEGER NOT NULL,                    -- -1 after the stack in old files
  tensor_id  INTEGER NOT NULL,                    -- canonical
  nth        INTEGER NOT NULL CHECK (nth >= 0),   -- 0, then 1, 2, ...: rows of one side at one place, in an order that is not that of arrival
  phase_id   INTEGER NOT NULL,
  step       INTEGER NOT NULL,                    -- 0 prefill, then one per token; -1 unknown
  name_id    INTEGER NOT NULL,                    -- tensor_name as written
  stands     INTEGER,                             -- 1: of the rows of its side at its place, of one token, it is the one that is compared
  stands_in_phase INTEGER,                        -- 1: the same of the rows of its phase: for comparisons of two runs
  ambiguous  INTEGER,                             -- 1: the rows that it stands for differ
  ambiguous_in_phase INTEGER,                     -- 1: the same of the rows of its phase
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
  sample_id  INTEGER,                             -- sample.id
  sketch_id  INTEGER,                             -- sketch.id; equal sketches of a run are one
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

-- Count-sketch of a row: two maps of 16 buckets (docs/fingerprint.md). A bucket is b * scale.
CREATE TABLE sketch (
  id INTEGER PRIMARY KEY,
  n  INTEGER NOT NULL,                            -- values it covers
  derived INTEGER NOT NULL,                       -- 1: made from a stored sample at ingest
  sum_sq REAL NOT NULL,                           -- squared L2 norm
  scale  REAL NOT NULL,                           -- a power of two, the least for which all buckets are below 2^28
  b0 INTEGER NOT NULL, b1 INTEGER NOT NULL, b2 INTEGER NOT NULL, b3 INTEGER NOT NULL,
  b4 INTEGER NOT NULL, b5 INTEGER NOT NULL, b6 INTEGER NOT NULL, b7 INTEGER NOT NULL,
  b8 INTEGER NOT NULL, b9 INTEGER NOT NULL, b10 INTEGER NOT NULL, b11 INTEGER NOT NULL,
  b12 INTEGER NOT NULL, b13 INTEGER NOT NULL, b14 INTEGER NOT NULL, b15 INTEGER NOT NULL,
  b16 INTEGER NOT NULL, b17 INTEGER NOT NULL, b18 INTEGER NOT NULL, b19 INTEGER NOT NULL,
  b20 INTEGER NOT NULL, b21 INTEGER NOT NULL, b22 INTEGER NOT NULL, b23 INTEGER NOT NULL,
  b24 INTEGER NOT NULL, b25 INTEGER NOT NULL, b26 INTEGER NOT NULL, b27 INTEGER NOT NULL,
  b28 INTEGER NOT NULL, b29 INTEGER NOT NULL, b30 INTEGER NOT NULL, b31 INTEGER NOT NULL,
  sum_bb INTEGER NOT NULL AS (                    -- sum of their squares: below 2^61
    b0 * b0 + b1 * b1 + b2 * b2 + b3 * b3 + b4 * b4 + b5 * b5 + b6 * b6 + b7 * b7
    + b8 * b8 + b9 * b9 + b10 * b10 + b11 * b11 + b12 * b12 + b13 * b13 + b14 * b14 + b15 * b15
    + b16 * b16 + b17 * b17 + b18 * b18 + b19 * b19 + b20 * b20 + b21 * b21 + b22 * b22 + b23 * b23
    + b24 * b24 + b25 * b25 + b26 * b26 + b27 * b27 + b28 * b28 + b29 * b29 + b30 * b30 + b31 * b31) STORED
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
  id           INTEGER PRIMARY KEY,
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
  UNIQUE (run_id, prompt_id, pos_id, layer, tensor_id, prefill_hash, decode_hash)
) STRICT;

-- Segments in which the two rows of a difference differ. A segment without a row here is equal, but a difference
-- without any row is spread, as rounding is: at most 1 % apart, all of its segments, at least 8, differ, and none has
-- more than four times its part.
CREATE TABLE difference_part (
  difference_id INTEGER NOT NULL REFERENCES difference(id),
  segment       INTEGER NOT NULL,                 -- 0 to difference.segments - 1
  share_ppm     INTEGER NOT NULL,                 -- share in the squared distance, in millionths, rounded
  PRIMARY KEY (difference_id, segment)
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
CREATE INDEX ingest_error_about ON ingest_error(severity, about) WHERE about IS NOT NULL;

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

-- Verdicts of runs: the rows of the view verdict_now, kept when a run is judged. A run without rows here is
-- UNJUDGED. Levels: run, the whole run (item ''); prompt, one of its prompts; cause, the comparisons that fail by
-- one cause; gate, the run without its waived differences, if it has any. If several prompts fail alike, the
-- first one seen is named.
CREATE TABLE verdict (
  run_id   INTEGER NOT NULL REFERENCES run(id),
  level    TEXT NOT NULL,                         -- run, prompt, cause, gate
  item     TEXT NOT NULL,                         -- prompt.name, the cause; '' of the others
  evidence TEXT NOT NULL,                         -- trace, report (a document's rows or table), none
  report_source_id INTEGER,                       -- source.id of the report whose table is the evidence
  verdict  TEXT NOT NULL,                         -- the one to act on: strict_verdict where the mode promises equal bits, or where no difference is measured; else numeric_verdict
  gate TEXT NOT NULL,                             -- strict, numeric: which of the next two that is
  strict_verdict TEXT NOT NULL,                   -- FAIL, INCOMPLETE, NO_EVIDENCE, INCOMPARABLE, PASS: every pair is bitwise equal
  numeric_verdict TEXT NOT NULL,                  -- the same, ROUNDING read as MATCH and UNKNOWN as INCOMPARABLE
  coverage TEXT NOT NULL,                         -- complete, undeclared, sampled, unmet, partial
  compared INTEGER NOT NULL,                      -- comparisons that had to match: pairs, and rows that are missing or not finite
  pairs INTEGER NOT NULL,                         -- with a row on both sides
  pass INTEGER NOT NULL,                          -- MATCH
  fail INTEGER NOT NULL,                          -- DRIFT, NONFINITE, AMBIGUOUS, CONFLICT; what double arithmetic refutes
  drift INTEGER NOT NULL,                         -- DRIFT
  nonfinite INTEGER NOT NULL,                     -- NONFINITE, also of rows without a partner
  rounding INTEGER NOT NULL,                      -- DRIFT within tolerance; sketches, and they are equal
  divergent INTEGER NOT NULL,                     -- DRIFT beyond it
  unmeasured INTEGER NOT NULL,                    -- DRIFT with nothing to measure it by
  missing INTEGER NOT NULL,                       -- must have a partner and have none
  decode_only INTEGER NOT NULL,                   -- decode rows where nothing demands a partner
  prefill_only INTEGER NOT NULL,                  -- prefill rows that decode has no partner for and needs none
  claimed INTEGER NOT NULL,                       -- pairs with a row that only a document states
  incomparable INTEGER NOT NULL,                  -- pairs that nothing decides
  unmet INTEGER NOT NULL,                         -- rows fewer than planned, or than the run says it wrote
  first_fail TEXT,                                -- these, by verdict: cause of the first that fails, in forward order; TRACE_OFFSET if any is missing
  root_cause TEXT,                                -- what the cause means
  prompt TEXT,
  layer INTEGER,
  tensor TEXT,                                    -- as the prefill row names it
  pos_id INTEGER,
  token_id INTEGER,
  details TEXT,                                   -- in words
  strict_first_fail TEXT,                         -- these, by strict_verdict
  strict_prompt TEXT,
  strict_layer INTEGER,
  strict_tensor TEXT,
  strict_pos_id INTEGER,
  strict_token_id INTEGER,
  first_drift_cause TEXT,                         -- these: of the first that fails by its values, where another's partner is missing
  first_drift_layer INTEGER,
  first_drift_tensor TEXT,
  numeric_first_fail TEXT,                        -- these: of the first that fails by more than rounding
  numeric_prompt TEXT,
  numeric_layer INTEGER,
  numeric_tensor TEXT,
  numeric_pos_id INTEGER,
  numeric_token_id INTEGER,
  numeric_origin TEXT,                            -- ORIGIN, PROPAGATED, UNSAMPLED; rounding inputs count as clean
  rejected INTEGER NOT NULL,                      -- lines and files that were not taken
  rejected_why TEXT,                              -- the most frequent reason
  until TEXT,                                     -- of a gate: YYYY-MM-DD, the last day of its waivers
  PRIMARY KEY (run_id, level, item)
) STRICT, WITHOUT ROWID;

-- Changes between runs and their baselines: the rows of the view diff_now, where run a is the baseline, kept when
-- a run is judged. A run and its baseline without a row here are UNJUDGED.
CREATE TABLE run_change (
  run_id      INTEGER NOT NULL REFERENCES run(id),
  baseline_id INTEGER NOT NULL REFERENCES run(id),
  level       TEXT NOT NULL,                      -- run; gate: without what is waived, where something is
  verdict TEXT NOT NULL,                          -- these and the next as diff_verdict has them
  strict_verdict TEXT NOT NULL,
  numeric_verdict TEXT NOT NULL,
  pairs INTEGER NOT NULL,
  match INTEGER NOT NULL,
  rounding INTEGER NOT NULL,
  divergent INTEGER NOT NULL,
  unknown INTEGER NOT NULL,
  nonfinite INTEGER NOT NULL,
  only_a INTEGER NOT NULL,
  only_b INTEGER NOT NULL,
  prompt TEXT,                                    -- these: of the first difference in forward order, beyond rounding where there is one
  phase TEXT,
  pos_id INTEGER,
  layer INTEGER,
  tensor TEXT,
  origin TEXT,
  caused_by TEXT,
  why_not TEXT,
  until TEXT,                                     -- of a gate: YYYY-MM-DD, the last day of its waivers
  PRIMARY KEY (run_id, baseline_id, level)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_change_by_baseline ON run_change(baseline_id);

-- The lineage of every run, as the view run_lineage has it: experiment/mode/backend/dtype/model/suite,
-- and /kv_cache=TYPE where that is not f32.
CREATE TABLE lineage_member (
  run_id   INTEGER PRIMARY KEY REFERENCES run(id),
  lineage  TEXT NOT NULL,
  injected INTEGER NOT NULL,                      -- 1: with a fault on purpose, so that no run is held against it
  run      TEXT NOT NULL,                         -- these as run has them; where unknown, the first date and the last start of a day: '' and '~'
  date     TEXT NOT NULL,
  started_at TEXT NOT NULL,
  seed     INTEGER,
  synthetic INTEGER NOT NULL
) STRICT;
CREATE INDEX lineage_member_by_time ON lineage_member(lineage, seed, synthetic, date, started_at, run_id);

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

-- Triggers against edits by hand: they delete the verdicts that were made from the rows that somebody corrects,
-- adds or deletes in sqlite3. greta's own writers switch them off for their connection and call forget_verdict(),
-- once per run.
-- The rows of a place are others now: which of them stands is worked out anew.
CREATE TRIGGER standing_changed INSTEAD OF INSERT ON standing BEGIN
  UPDATE trace_row SET (stands, stands_in_phase, ambiguous, ambiguous_in_phase) = (
      SELECT s.stands, s.stands_in_phase, s.ambiguous, s.ambiguous_in_phase FROM standing s
      WHERE s.run_id = trace_row.run_id AND s.prompt_id = trace_row.prompt_id AND s.side = trace_row.side
        AND s.pos_id = trace_row.pos_id AND s.layer = trace_row.layer AND s.tensor_id = trace_row.tensor_id AND s.nth = trace_row.nth)
    WHERE run_id = NEW.run_id AND prompt_id = NEW.prompt_id AND side = NEW.side AND pos_id = NEW.pos_id
      AND layer = NEW.layer AND tensor_id = NEW.tensor_id;
  INSERT INTO traced_position
    SELECT run_id, prompt_id, side, pos_id, max(phase_id IS (SELECT id FROM phase WHERE name = 'prefill_last')) FROM trace_row
    WHERE run_id = NEW.run_id AND prompt_id = NEW.prompt_id AND side = NEW.side AND pos_id = NEW.pos_id
      AND layer = NEW.layer AND tensor_id = NEW.tensor_id
    GROUP BY run_id, prompt_id, side, pos_id
    ON CONFLICT DO UPDATE SET demands = max(demands, excluded.demands);
END;
CREATE TRIGGER trace_row_inserted AFTER INSERT ON trace_row BEGIN
  INSERT INTO standing(run_id, prompt_id, side, pos_id, layer, tensor_id)
    VALUES (NEW.run_id, NEW.prompt_id, NEW.side, NEW.pos_id, NEW.layer, NEW.tensor_id);
  DELETE FROM verdict WHERE run_id = NEW.run_id;
END;
CREATE TRIGGER trace_row_updated AFTER UPDATE OF run_id, prompt_id, side, pos_id, layer, tensor_id, nth, phase_id, step, name_id,
    token_id, logical_tok_idx, n, hash, min, max, mean, abs_sum, nan, inf, nz_count, flags, sample_id, sketch_id ON trace_row BEGIN
  INSERT INTO standing(run_id, prompt_id, side, pos_id, layer, tensor_id)
    VALUES (OLD.run_id, OLD.prompt_id, OLD.side, OLD.pos_id, OLD.layer, OLD.tensor_id),
      (NEW.run_id, NEW.prompt_id, NEW.side, NEW.pos_id, NEW.layer, NEW.tensor_id);
  DELETE FROM verdict WHERE run_id IN (OLD.run_id, NEW.run_id);
END;
CREATE TRIGGER trace_row_deleted AFTER DELETE ON trace_row BEGIN
  INSERT INTO standing(run_id, prompt_id, side, pos_id, layer, tensor_id)
    VALUES (OLD.run_id, OLD.prompt_id, OLD.side, OLD.pos_id, OLD.layer, OLD.tensor_id);
  DELETE FROM verdict WHERE run_id = OLD.run_id;
END;
-- Changes of a run, and of runs whose baseline it is, are deleted with its verdict.
CREATE TRIGGER verdict_deleted AFTER DELETE ON verdict WHEN OLD.level = 'run' BEGIN
  DELETE FROM run_change WHERE run_id = OLD.run_id;
  DELETE FROM run_change WHERE baseline_id = OLD.run_id;
END;
-- Somebody corrects a sketch.
CREATE TRIGGER sketch_updated AFTER UPDATE ON sketch BEGIN
  DELETE FROM verdict WHERE run_id IN (SELECT t.run_id FROM trace_row t WHERE t.sketch_id = NEW.id); END;
-- Somebody declares that a row is wanted, or is not.
CREATE TRIGGER plan_inserted AFTER INSERT ON plan BEGIN DELETE FROM verdict WHERE run_id = NEW.run_id; END;
CREATE TRIGGER plan_updated AFTER UPDATE ON plan BEGIN DELETE FROM verdict WHERE run_id IN (OLD.run_id, NEW.run_id); END;
-- Somebody corrects what logits chose, or what double arithmetic says of them.
CREATE TRIGGER readout_inserted AFTER INSERT ON readout BEGIN DELETE FROM verdict WHERE run_id = NEW.run_id; END;
CREATE TRIGGER readout_updated AFTER UPDATE ON readout BEGIN DELETE FROM verdict WHERE run_id IN (OLD.run_id, NEW.run_id); END;
-- Somebody takes away or adds an exact distance, which would excuse a difference.
CREATE TRIGGER difference_inserted AFTER INSERT ON difference BEGIN DELETE FROM verdict WHERE run_id = NEW.run_id; END;
CREATE TRIGGER difference_updated AFTER UPDATE ON difference BEGIN DELETE FROM verdict WHERE run_id IN (OLD.run_id, NEW.run_id); END;
CREATE TRIGGER difference_deleted AFTER DELETE ON difference BEGIN DELETE FROM verdict WHERE run_id = OLD.run_id; END;
-- Somebody edits a report's table, which may be the evidence.
CREATE TRIGGER report_pair_inserted AFTER INSERT ON report_pair BEGIN DELETE FROM verdict WHERE run_id = NEW.run_id; END;
CREATE TRIGGER report_pair_updated AFTER UPDATE ON report_pair BEGIN DELETE FROM verdict WHERE run_id IN (OLD.run_id, NEW.run_id); END;
CREATE TRIGGER report_pair_deleted AFTER DELETE ON report_pair BEGIN DELETE FROM verdict WHERE run_id = OLD.run_id; END;
-- Somebody edits what a document claims.
CREATE TRIGGER report_claim_inserted AFTER INSERT ON report_claim BEGIN DELETE FROM verdict WHERE run_id = NEW.run_id; END;
CREATE TRIGGER report_claim_updated AFTER UPDATE ON report_claim BEGIN DELETE FROM verdict WHERE run_id IN (OLD.run_id, NEW.run_id); END;
CREATE TRIGGER report_claim_deleted AFTER DELETE ON report_claim BEGIN DELETE FROM verdict WHERE run_id = OLD.run_id; END;
-- A prompt that is announced is asked for; of other tokens it compares with nothing.
CREATE TRIGGER prompt_inserted AFTER INSERT ON prompt BEGIN DELETE FROM verdict WHERE run_id = NEW.run_id; END;
CREATE TRIGGER prompt_updated AFTER UPDATE ON prompt BEGIN DELETE FROM verdict WHERE run_id IN (OLD.run_id, NEW.run_id); END;
CREATE TRIGGER prompt_deleted AFTER DELETE ON prompt BEGIN DELETE FROM verdict WHERE run_id = OLD.run_id; END;
-- Somebody notes that an ingest has not ended, or that a line was not taken.
CREATE TRIGGER ingest_run_inserted AFTER INSERT ON ingest_run BEGIN DELETE FROM verdict WHERE run_id = NEW.run_id; END;
CREATE TRIGGER ingest_error_inserted AFTER INSERT ON ingest_error BEGIN DELETE FROM verdict WHERE true; END;
CREATE TRIGGER ingest_error_updated AFTER UPDATE ON ingest_error BEGIN DELETE FROM verdict WHERE true; END;
-- Somebody sets a tolerance, measures a model, or accepts differences for a while.
CREATE TRIGGER tolerance_inserted AFTER INSERT ON tolerance BEGIN DELETE FROM verdict WHERE true; END;
CREATE TRIGGER tolerance_updated AFTER UPDATE ON tolerance BEGIN DELETE FROM verdict WHERE true; END;
CREATE TRIGGER tolerance_deleted AFTER DELETE ON tolerance BEGIN DELETE FROM verdict WHERE true; END;
CREATE TRIGGER noise_floor_inserted AFTER INSERT ON noise_floor BEGIN
  DELETE FROM verdict WHERE run_id IN (SELECT run_id FROM attribute WHERE dim IN ('model_root', 'model_sha256') AND value = NEW.model_sha256); END;
CREATE TRIGGER noise_floor_updated AFTER UPDATE ON noise_floor BEGIN
  DELETE FROM verdict WHERE run_id IN (
    SELECT run_id FROM attribute WHERE dim IN ('model_root', 'model_sha256') AND value IN (OLD.model_sha256, NEW.model_sha256)); END;
CREATE TRIGGER noise_floor_deleted AFTER DELETE ON noise_floor BEGIN
  DELETE FROM verdict WHERE run_id IN (SELECT run_id FROM attribute WHERE dim IN ('model_root', 'model_sha256') AND value = OLD.model_sha256); END;
CREATE TRIGGER waiver_inserted AFTER INSERT ON waiver BEGIN DELETE FROM verdict WHERE true; END;
CREATE TRIGGER waiver_updated AFTER UPDATE ON waiver BEGIN DELETE FROM verdict WHERE true; END;
CREATE TRIGGER waiver_deleted AFTER DELETE ON waiver BEGIN DELETE FROM verdict WHERE true; END;
-- Somebody corrects what a run is, or forgets it.
-- An INSERT OR REPLACE takes the place of a row without an event of deletion.
CREATE TRIGGER run_inserted AFTER INSERT ON run BEGIN
  DELETE FROM verdict WHERE run_id = NEW.id;
  INSERT OR REPLACE INTO lineage_member SELECT * FROM run_lineage WHERE run_id = NEW.id;
END;
CREATE TRIGGER run_updated AFTER UPDATE ON run BEGIN
  DELETE FROM verdict WHERE run_id IN (OLD.id, NEW.id);
  INSERT OR REPLACE INTO lineage_member SELECT * FROM run_lineage WHERE run_id = NEW.id;
END;
CREATE TRIGGER run_deleted AFTER DELETE ON run BEGIN
  -- runs that were compared with it have another baseline now
  DELETE FROM verdict WHERE run_id IN (SELECT c.run_id FROM run_change c WHERE c.baseline_id = OLD.id);
  DELETE FROM verdict WHERE run_id = OLD.id;
  DELETE FROM lineage_member WHERE run_id = OLD.id;
  DELETE FROM pinned_baseline WHERE run_id = OLD.id;
  DELETE FROM waiver WHERE run = OLD.name;
END;
CREATE TRIGGER attribute_inserted AFTER INSERT ON attribute BEGIN
  DELETE FROM verdict WHERE run_id = NEW.run_id;
  INSERT OR REPLACE INTO lineage_member SELECT * FROM run_lineage WHERE run_id = NEW.run_id;
END;
CREATE TRIGGER attribute_updated AFTER UPDATE ON attribute BEGIN
  DELETE FROM verdict WHERE run_id IN (OLD.run_id, NEW.run_id);
  INSERT OR REPLACE INTO lineage_member SELECT * FROM run_lineage WHERE run_id IN (OLD.run_id, NEW.run_id);
END;
CREATE TRIGGER attribute_deleted AFTER DELETE ON attribute BEGIN
  DELETE FROM verdict WHERE run_id = OLD.run_id;
  INSERT OR REPLACE INTO lineage_member SELECT * FROM run_lineage WHERE run_id = OLD.run_id;
END;
