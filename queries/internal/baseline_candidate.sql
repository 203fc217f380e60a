-- Runs that others of their lineage can be held against: they ended well, have rows, and no fault was
-- injected.
CREATE VIEW baseline_candidate AS
SELECT
  m.lineage AS lineage, b.id AS run_id, b.name AS run, b.commit_sha AS commit_sha, b.seed AS seed, b.synthetic AS synthetic,
  ifnull(b.date, '') AS date, ifnull(b.started_at, '') AS started_at
FROM lineage_member m
CROSS JOIN run b ON b.id = m.run_id
WHERE NOT m.injected AND b.status IN ('complete', 'unknown')
  AND EXISTS (SELECT 1 FROM trace_row t WHERE t.run_id = b.id);
