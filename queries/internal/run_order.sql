-- One row per run: its place in the order of history, from 1: that of the commits where they are known, else of time.
-- A run of an unknown commit stands behind those of known ones that came before it in time.
CREATE VIEW run_order AS
SELECT
  o.run_id AS run_id,
  row_number() OVER (ORDER BY ifnull(o.ord, o.last_ord), o.ord IS NULL, o.date, o.started_at, o.run_id) AS ord
FROM (
  SELECT k.*, max(k.ord) OVER (ORDER BY k.date, k.started_at, k.run_id) AS last_ord
  FROM (
    SELECT
      m.run_id AS run_id, m.date AS date, m.started_at AS started_at,
      (SELECT c.ord FROM commit_node c
       WHERE c.sha >= r.sha AND c.sha < r.sha || 'g' AND length(r.sha) >= 7 LIMIT 1) AS ord
    FROM lineage_member m
    JOIN (SELECT n.id AS id, replace(n.commit_sha, '-dirty', '') AS sha FROM run n) r ON r.id = m.run_id) k) o;
