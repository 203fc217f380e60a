-- One row per run and cause: how many comparisons it explains. percent is of all comparisons that
-- had to match: the pairs, and the rows whose partner is missing.
CREATE VIEW failure_breakdown AS
SELECT
  r.name AS run,                                       -- run.name
  c.item AS cause,                                     -- ATTN_OUT_DRIFT, TRACE_OFFSET, AMBIGUOUS_TRACE, ...
  c.compared AS count,                                 -- comparisons that fail this way
  100.0 * c.compared / v.compared AS percent,          -- of all that had to match
  c.compared - c.rounding - c.unmeasured AS numeric_count, -- of these, those that fail the numeric verdict too: by more than rounding
  100.0 * (c.compared - c.rounding - c.unmeasured) / v.compared AS numeric_percent, -- of all that had to match
  c.run_id AS run_id                                   -- run.id
FROM verdict c
JOIN verdict v ON v.run_id = c.run_id AND v.level = 'run' AND v.item = ''
JOIN run r ON r.id = c.run_id
WHERE c.level = 'cause'
ORDER BY r.name, c.compared DESC, c.strict_layer < 0, c.strict_layer, (
  SELECT t.ord FROM tensor_name n JOIN tensor t ON t.id = n.tensor_id WHERE n.name = c.strict_tensor), c.item;
