-- run.status of the runs whose sources say that they began or ended, whatever came first: one that
-- failed once has failed, and one that started more often than it ended is running. What several
-- sources say alike is of copies of one.
CREATE VIEW event_status AS
SELECT
  r.id AS run_id,
  CASE
    WHEN r.status = 'failed' OR EXISTS (
      SELECT 1 FROM run_event e WHERE e.run_id = r.id AND e.kind = 'failed') THEN 'failed'
    WHEN (SELECT sum(CASE e.kind WHEN 'start' THEN 1 ELSE -1 END)
          FROM (SELECT DISTINCT e.kind AS kind, e.nth AS nth, e.at AS at FROM run_event e WHERE e.run_id = r.id) e) > 0
      THEN 'running'
    ELSE 'complete'
  END AS status
FROM run r
WHERE EXISTS (SELECT 1 FROM run_event e WHERE e.run_id = r.id);
