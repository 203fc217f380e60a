-- The run that a run is held against: that which somebody pinned for its lineage, else the last of its
-- lineage, and seed, before it: of its commit or of the nearest ancestor that has one, where the commit
-- is known (commit_node), else by time, and then by name: #10 is after #2. NULL: there is none, or a fault
-- was injected.
CREATE VIEW run_baseline AS
SELECT
  r.run_id AS run_id, r.lineage AS lineage, r.injected AS injected, r.sha AS sha,
  CASE WHEN NOT r.injected THEN coalesce(
    (SELECT p.run_id FROM pinned_baseline p WHERE p.lineage = r.lineage AND p.run_id <> r.run_id),
    (SELECT w.run_id
     FROM (
       SELECT
         (SELECT b.run_id FROM baseline_candidate b
          WHERE b.lineage = r.lineage AND b.seed IS r.seed AND b.synthetic = r.synthetic
            AND (u.sha IS NULL OR u.sha >= b.commit_sha AND u.sha < b.commit_sha || 'g')
            AND (u.sha IS NOT r.sha OR (b.date, b.started_at, length(b.run), b.run) < (r.date, r.started_at, length(r.run), r.run))
          ORDER BY b.date DESC, b.started_at DESC, length(b.run) DESC, b.run DESC LIMIT 1) AS run_id
       FROM (
         WITH RECURSIVE up(sha, ord) AS (  -- its own commit, then ancestors, the nearest first
           SELECT r.sha, NULL
           UNION
           SELECT n.sha, n.ord
           FROM up u CROSS JOIN commit_parent p ON p.sha = u.sha CROSS JOIN commit_node n ON n.sha = p.parent
           ORDER BY 2 DESC)
         SELECT up.sha AS sha FROM up) u
       LIMIT -1) w  -- each is asked for once
     WHERE w.run_id IS NOT NULL
     LIMIT 1)) END AS baseline_id
FROM (
  SELECT
    m.run_id AS run_id, m.run AS run, m.lineage AS lineage, m.injected AS injected, m.date AS date,
    m.started_at AS started_at, m.seed AS seed, m.synthetic AS synthetic,
    (SELECT c.sha FROM commit_node c
     WHERE c.sha >= n.commit_sha AND c.sha < n.commit_sha || 'g' AND length(n.commit_sha) >= 7 LIMIT 1) AS sha
  FROM lineage_member m
  JOIN run n ON n.id = m.run_id) r;
