-- Every two runs, the one held against the other as against its baseline. Name both.
CREATE VIEW other_baseline AS
SELECT
  r.id AS run_id, (SELECT m.lineage FROM lineage_member m WHERE m.run_id = r.id) AS lineage,
  (SELECT m.injected FROM lineage_member m WHERE m.run_id = r.id) AS injected,
  (SELECT c.sha FROM commit_node c
   WHERE c.sha >= r.commit_sha AND c.sha < r.commit_sha || 'g' AND length(r.commit_sha) >= 7 LIMIT 1) AS sha,
  a.id AS baseline_id
FROM run r
CROSS JOIN run a
WHERE a.id <> r.id;
