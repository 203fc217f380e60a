-- One row per run and cause: how many comparisons it explains. percent is of all comparisons that
-- had to match: the pairs, and the rows whose partner is missing.
CREATE VIEW failure_breakdown AS
SELECT
  b.run AS run,                                        -- run.name
  b.cause AS cause,                                    -- ATTN_OUT_DRIFT, TRACE_OFFSET, AMBIGUOUS_TRACE, ...
  b.count AS count,                                    -- comparisons that fail this way
  100.0 * b.count / b.total AS percent,                -- of all pairs and rows without a partner
  b.numeric_count AS numeric_count,                    -- of these, those that fail the numeric verdict too: by more than rounding
  100.0 * b.numeric_count / b.total AS numeric_percent, -- of all pairs and rows without a partner
  b.run_id AS run_id                                   -- run.id
FROM (
  SELECT c.*, sum(c.had_to_match) OVER (PARTITION BY c.run, c.run_id) AS total
  FROM (
    SELECT
      t.run AS run, t.run_id AS run_id, t.cause AS cause,
      sum(t.count) OVER alike AS count,
      sum(CASE WHEN t.class IN ('ROUNDING', 'UNKNOWN') THEN 0 ELSE t.count END) OVER alike AS numeric_count,
      sum(CASE WHEN s.compared OR s.blamed THEN t.count ELSE 0 END) OVER alike AS had_to_match,
      row_number() OVER (PARTITION BY t.run, t.run_id, t.cause
                         ORDER BY t.forward_layer, (SELECT k.ord FROM tensor k WHERE k.id = t.tensor_id)) AS nth,
      t.forward_layer AS forward_layer, (SELECT k.ord FROM tensor k WHERE k.id = t.tensor_id) AS ord
    FROM tally t
    JOIN status s ON s.name = t.status
    WINDOW alike AS (PARTITION BY t.run, t.run_id, t.cause)
  ) c
  WHERE c.nth = 1
) b
WHERE b.cause IS NOT NULL
ORDER BY b.run, b.count DESC, b.forward_layer, b.ord IS NULL, b.ord, b.cause;
