-- One row per run: what it is compared with across commits and dates. A lineage is the runs of one
-- experiment, mode, backend, dtype, model, suite and type of the KV cache.
CREATE VIEW lineage AS
SELECT
  b.lineage AS lineage,                                -- experiment/mode/backend/dtype/model/suite; /kv_cache=TYPE behind it where that is not f32
  r.name AS run,                                       -- run.name
  r.date AS date,                                      -- YYYY-MM-DD; NULL unknown
  r.commit_sha AS commit_sha,                          -- commit of the engine that ran
  a.name AS baseline,                                   -- the run that it is held against: the one pinned, else the last before it, by commits where they are known, else by time
  (SELECT 1 FROM pinned_baseline p WHERE p.lineage = b.lineage AND p.run_id = a.id) IS NOT NULL AS pinned, -- 1: somebody chose it
  b.injected AS injected,                              -- 1: with a fault on purpose, so it has no baseline and is none
  (SELECT c.ord FROM commit_node c WHERE c.sha = b.sha) AS commit_ord, -- parents before children; NULL where the commit is not known
  a.id AS baseline_id,                                 -- run.id
  b.run_id AS run_id                                   -- run.id
FROM run_baseline b
JOIN run r ON r.id = b.run_id
LEFT JOIN run a ON a.id = b.baseline_id
WHERE NOT EXISTS (SELECT 1 FROM directory_level d WHERE d.run_id = b.run_id);
