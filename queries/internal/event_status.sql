-- run.status of the runs whose sources say that they began or ended, whatever came first: one that
-- failed once has failed, and one that started more often than it ended is running. What several states
-- of one file say alike counts once. What several files say alike does not: parts of a run start alike, and
-- one of them may not have ended.
CREATE VIEW event_status AS
SELECT
  r.id AS run_id,
  CASE
    WHEN r.status = 'failed' OR EXISTS (
      SELECT 1 FROM run_event e WHERE e.run_id = r.id AND e.kind = 'failed') THEN 'failed'
    WHEN (SELECT sum(CASE e.kind WHEN 'start' THEN 1 ELSE -1 END)
          FROM (SELECT DISTINCT e.kind AS kind, e.nth AS nth, e.at AS at,
                  (SELECT min(l.path) FROM source_location l WHERE l.source_id = e.source_id) AS path
                FROM run_event e WHERE e.run_id = r.id) e) > 0
      THEN 'running'
    ELSE 'complete'
  END AS status
FROM run r
WHERE EXISTS (SELECT 1 FROM run_event e WHERE e.run_id = r.id);
