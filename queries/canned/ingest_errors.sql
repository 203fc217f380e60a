-- Every line or file that was not taken as it stands, with what was written there.
-- :severity () error or warning; both without
SELECT e.severity, e.file, e.line, e.reason, CAST(substr(e.raw, 1, 200) AS TEXT) AS raw,
       length(e.raw) AS raw_bytes, r.name AS run
FROM ingest_error e
LEFT JOIN source s ON s.id = e.source_id
LEFT JOIN run r ON r.id = s.run_id
WHERE e.severity = :severity OR :severity IS NULL
ORDER BY e.severity, e.file, e.line, e.id;
