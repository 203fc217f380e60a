-- Runs that are no runs but levels of directories, which carry attributes for the runs below them.
CREATE VIEW directory_level AS
SELECT r.id AS run_id
FROM run r
WHERE r.status = 'unknown'
  AND NOT EXISTS (SELECT 1 FROM plan p WHERE p.run_id = r.id)
  AND NOT EXISTS (SELECT 1 FROM trace_row t WHERE t.run_id = r.id)
  AND NOT EXISTS (SELECT 1 FROM report_pair t WHERE t.run_id = r.id)
  -- nor one of which there was a trace, though none of its lines was taken
  AND NOT EXISTS (
    SELECT 1 FROM source s CROSS JOIN ingest_error e ON e.source_id = s.id AND e.severity = 'error'
    WHERE s.run_id = r.id AND s.shape = 'unknown')
  AND EXISTS (SELECT 1 FROM run c WHERE c.name > r.name || '/' AND c.name < r.name || '0');
