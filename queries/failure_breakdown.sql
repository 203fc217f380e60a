-- One row per run and cause: how many comparisons it explains. percent is of all comparisons that
-- had to match: the pairs, and the rows whose partner is missing.
CREATE VIEW failure_breakdown AS
SELECT
  b.run AS run,                                        -- run.name
  b.cause AS cause,                                    -- ATTN_OUT_DRIFT, TRACE_OFFSET, AMBIGUOUS_TRACE, ...
  b.count AS count,                                    -- comparisons that fail this way
  100.0 * b.count / b.total AS percent,                -- of all pairs and rows without a partner
  b.run_id AS run_id                                   -- run.id
FROM (
  SELECT t.run AS run, t.run_id AS run_id, t.cause AS cause, sum(t.count) AS count,
         sum(sum(t.count)) OVER (PARTITION BY t.run, t.run_id) AS total, min(t.first_at) AS first_at
  FROM tally t
  WHERE t.status NOT IN ('DECODE_ONLY', 'UNMET', 'RUN')
  GROUP BY t.run, t.run_id, t.cause
) b
WHERE b.cause IS NOT NULL
ORDER BY b.run_id, b.count DESC, b.first_at;
