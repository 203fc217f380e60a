-- The tables of a warehouse in ClickHouse. A statement ends with a semicolon at the end of a line. The one row of
-- `greta` says whose tables they are. {engine published} and {engine} are MergeTree, or ReplicatedMergeTree where the
-- cluster's shards have replicas. A run's rows lie on one shard, by the column `shard`. Rows belong to a push, and no
-- answer has them until a row of `published` names it.

CREATE VIEW IF NOT EXISTS {db}.greta {on_cluster} AS
SELECT 'greta' AS purpose, toUInt64({version}) AS version, {cluster} AS cluster;

-- One row per push that is complete. Of several of one identity the greatest (version, push) counts.
CREATE TABLE IF NOT EXISTS {db}.published {on_cluster} (
  shard UInt64,                          -- of the identity: where all of it lies
  push UInt64,                           -- random
  version UInt64,                        -- 1, then 2, ...: no clock of any machine is believed
  identity String,                       -- source:SHA-256 of the engine, pipe or file of rows that began it, else name:NAME
  run String,                            -- run.name, NAME#2 where another identity has NAME
  origin Int64,                          -- run.id in the file it came from: orders what nothing else does
  experiment String,
  date String,                           -- these: '' unknown
  commit_sha String,
  mode String,
  rules UInt64,                          -- push of the dictionary that its ids are of, which runs share
  host String,                           -- that pushed
  -- of trace_row, sketch, sample, difference, difference_part, verdict, run_change, record:
  counts Array(UInt64),                  -- number of rows; fewer than that is an error, never an answer
  sums Array(UInt64),                    -- sum of a hash of each row, in any order: what they say
  published_at DateTime DEFAULT now()    -- by the server's clock
) ENGINE = {engine published} ORDER BY (run, identity, version, push);

-- Then each of these tables. Columns are those of SQLite's tables of that name, without run_id; nan and inf are
-- nan_count and inf_count. run_change has `baseline`, an identity, and `baseline_extent`, which tells the rows of that
-- run from what they were before. record has the rows of all other tables as text:
-- `kind` is the table, `ord` the number of the row in it, and a real the shortest text that reads back as the same one.
CREATE TABLE IF NOT EXISTS {db}.{table} {on_cluster} (
  shard UInt64,
  push UInt64,
  {columns},
  pushed_at DateTime DEFAULT now()
) ENGINE = {engine} ORDER BY (push, {key});
