-- What a run's verdict rests on: its trace rows (report: those that a document states), else its best
-- report table, else nothing. The best table lists a DRIFT, if any does, and has the most decided pairs; ties go to the latest stage, then to the table that
-- says most about its pairs, then to the first path.
CREATE VIEW run_evidence AS
SELECT
  r.id AS run_id, r.name AS run,
  CASE
    WHEN EXISTS (SELECT 1 FROM trace_row t WHERE t.run_id = r.id AND (t.flags & 8) = 0) THEN 'trace'
    WHEN EXISTS (SELECT 1 FROM trace_row t WHERE t.run_id = r.id) THEN 'report'
    WHEN EXISTS (SELECT 1 FROM report_pair t WHERE t.run_id = r.id) THEN 'report'
    ELSE 'none'
  END AS evidence,
  CASE WHEN NOT EXISTS (SELECT 1 FROM trace_row t WHERE t.run_id = r.id) THEN (
    SELECT q.source_id FROM report_pair q JOIN report s ON s.source_id = q.source_id
    WHERE q.run_id = r.id
    GROUP BY q.source_id
    ORDER BY sum(q.status = 'DRIFT') = 0, sum(q.status IN ('MATCH', 'DRIFT')) DESC, s.stage DESC, count(q.details) DESC,
             (SELECT min(path) FROM source_location l WHERE l.source_id = q.source_id)
    LIMIT 1)
  END AS report_source_id
FROM run r;
