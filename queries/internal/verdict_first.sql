-- verdict_count with the keys of the first failures taken apart (see tally.first_at). *_at is the
-- position, or the line where a report is the evidence. A first fail is TRACE_OFFSET if any row is
-- missing, else the first drift.
CREATE VIEW verdict_first AS
SELECT
  c.*,
  CAST(substr(coalesce(c.missing_key, c.drift_key), 21, 10) AS INTEGER) AS fail_prompt_id,
  nullif(CAST(substr(coalesce(c.missing_key, c.drift_key), 31, 20) AS INTEGER) & 8191, 8191) - 1 AS fail_layer,
  (CAST(substr(coalesce(c.missing_key, c.drift_key), 31, 20) AS INTEGER) >> 13) & 2097151 AS fail_at,
  (CAST(substr(coalesce(c.missing_key, c.drift_key), 31, 20) AS INTEGER) >> 34) & 65535 AS fail_tensor_id,
  substr(coalesce(c.missing_key, c.drift_key), 51) AS fail_cause,
  CAST(substr(c.drift_key, 21, 10) AS INTEGER) AS drift_prompt_id,
  nullif(CAST(substr(c.drift_key, 31, 20) AS INTEGER) & 8191, 8191) - 1 AS drift_layer,
  (CAST(substr(c.drift_key, 31, 20) AS INTEGER) >> 13) & 2097151 AS drift_at,
  (CAST(substr(c.drift_key, 31, 20) AS INTEGER) >> 34) & 65535 AS drift_tensor_id,
  substr(c.drift_key, 51) AS drift_cause,
  CAST(substr(c.divergent_key, 21, 10) AS INTEGER) AS divergent_prompt_id,
  nullif(CAST(substr(c.divergent_key, 31, 20) AS INTEGER) & 8191, 8191) - 1 AS divergent_layer,
  (CAST(substr(c.divergent_key, 31, 20) AS INTEGER) >> 13) & 2097151 AS divergent_at,
  (CAST(substr(c.divergent_key, 31, 20) AS INTEGER) >> 34) & 65535 AS divergent_tensor_id,
  substr(c.divergent_key, 51) AS divergent_cause,
  e.evidence AS evidence, e.report_source_id AS report_source_id
FROM verdict_count c
JOIN run_evidence e ON e.run_id = c.run_id;
