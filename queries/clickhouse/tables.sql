-- The tables of a warehouse in ClickHouse, statement after statement. The one row of `greta` says whose
-- they are. {engine NAME} is MergeTree, or ReplicatedMergeTree where the cluster's shards have replicas.
-- A run's rows lie on one shard, by the column `shard`. Rows belong to a push, and are there for
-- nobody until a row of `published` names it.

CREATE VIEW IF NOT EXISTS {db}.greta {on_cluster} AS
SELECT 'greta' AS purpose, toUInt64({version}) AS version, {cluster} AS cluster;

-- One row per push that is complete. Of several of one identity the greatest (version, push) counts.
CREATE TABLE IF NOT EXISTS {db}.published {on_cluster} (
  shard UInt64,                          -- of the identity: where all of it lies
  push UInt64,                           -- random
  version UInt64,                        -- 1, then 2, ...: no clock of any machine is believed
  identity String,                       -- engine:SHA-256 of what the engine called itself, else name:NAME
  run String,                            -- run.name, NAME#2 where another identity has NAME
  origin Int64,                          -- run.id in the file it came from: orders what nothing else does
  experiment String,
  date String,                           -- these: '' unknown
  commit_sha String,
  mode String,
  dtype String,
  status String,
  hash_algo String,
  verdict String,                        -- that SQLite gave
  numeric_verdict String,
  rows UInt64,                           -- of trace_row; fewer than that is an error, never an answer
  differences UInt64,                    -- of difference
  records UInt64,                        -- of record
  content String,                        -- SHA-256 of the records and the number of rows
  rules UInt64,                          -- push of the dictionary that its ids are of, which runs share
  rules_records UInt64,
  host String,                           -- that pushed
  published_at DateTime DEFAULT now(),   -- by the server's clock
  rows_sum UInt64,                       -- of a hash of each row, whatever their order: what they say
  differences_sum UInt64,
  records_sum UInt64                     -- all three 0: an earlier greta-db has pushed
) ENGINE = {engine published} ORDER BY (run, identity, version, push);

-- Trace rows, with their sketch and sample; columns as in SQLite's trace_row, sketch and sample.
CREATE TABLE IF NOT EXISTS {db}.trace_row {on_cluster} (
  shard UInt64,
  push UInt64,
  prompt_id Int64,
  pos_id Int32,
  layer Int32,
  tensor_id Int64,
  side UInt8,
  nth Int64,
  crowded UInt8,
  phase_id Int64,
  step Int64,
  name_id Int64,
  token_id Nullable(Int64),
  logical_tok_idx Nullable(Int64),
  n Nullable(Int64),
  hash Nullable(UInt64),
  min Nullable(Float64),
  max Nullable(Float64),
  mean Nullable(Float64),
  abs_sum Nullable(Float64),
  nan_count Nullable(Int64),
  inf_count Nullable(Int64),
  nz_count Nullable(Int64),
  flags UInt8,
  sketch_n Nullable(Int64),              -- NULL: no sketch
  sketch_derived UInt8,
  sum_sq Float64,
  sketch Array(Float64),                 -- s0 to s31
  sample_n Nullable(Int64),              -- NULL: no sample
  sample String,
  ptr Nullable(Int64),
  offset_bytes Nullable(Int64),
  context_id Nullable(Int64),
  source_id Int64,
  line Int64,
  tolerance Nullable(Float64),           -- up to which a difference of this row is rounding: run_tolerance and run_noise
  pushed_at DateTime DEFAULT now()
) ENGINE = {engine trace_row} ORDER BY (push, prompt_id, pos_id, layer, tensor_id, side, nth);

-- Exact differences of two rows; columns as in SQLite.
CREATE TABLE IF NOT EXISTS {db}.difference {on_cluster} (
  shard UInt64,
  push UInt64,
  prompt_id Int64,
  pos_id Int32,
  layer Int32,
  tensor_id Int64,
  prefill_hash UInt64,
  decode_hash UInt64,
  n Int64,
  differing Int64,
  first_at Int64,
  last_at Int64,
  rel_l2 Nullable(Float64),
  max_abs Float64,
  max_abs_at Nullable(Int64),
  max_ulp Int64,
  heads Int64,
  segments Int64,
  shares Array(Nullable(Float64)),       -- p0 to p31
  pushed_at DateTime DEFAULT now()
) ENGINE = {engine difference} ORDER BY (push, prompt_id, pos_id, layer, tensor_id, prefill_hash, decode_hash);

-- Rows of all other tables, as text: attributes, plans, readouts, metrics, the verdict that SQLite gave, ...
CREATE TABLE IF NOT EXISTS {db}.record {on_cluster} (
  shard UInt64,
  push UInt64,
  kind String,                           -- name of the table in SQLite
  ord UInt64,                            -- 0, 1, ... within it
  cells Array(Nullable(String)),         -- in the order of its columns; a real as the shortest text that reads back
  pushed_at DateTime DEFAULT now()
) ENGINE = {engine record} ORDER BY (push, kind, ord);
