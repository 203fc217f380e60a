-- Runs that others of their lineage can be held against: they ended well, have rows, and no fault was
-- injected. lineage_member_by_time has them in the order of time.
CREATE VIEW baseline_candidate AS
SELECT
  m.lineage AS lineage, m.run_id AS run_id, m.run AS run, m.date AS date, m.started_at AS started_at,
  CASE WHEN length(b.commit_sha) >= 7 THEN b.commit_sha END AS commit_sha, b.commit_sha AS stated_sha,
  m.seed AS seed, m.synthetic AS synthetic
FROM lineage_member m
CROSS JOIN run b ON b.id = m.run_id
WHERE NOT m.injected AND b.status IN ('complete', 'unknown')
  AND EXISTS (SELECT 1 FROM trace_row t WHERE t.run_id = b.id);
