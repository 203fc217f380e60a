-- One row per push and prompt: how many planned rows are not there. What has no known position is compared with
-- nothing, and what a document states was not traced.
SELECT push, prompt_id, toUInt64(count()) AS total
FROM (
  SELECT
    push, toInt64(assumeNotNull(cells[2])) AS prompt_id, toUInt8(toInt64(assumeNotNull(cells[3]))) AS side,
    toInt32(toInt64(assumeNotNull(cells[4]))) AS layer, toInt64(assumeNotNull(cells[5])) AS tensor_id
  FROM {db}.record
  WHERE push IN (SELECT push FROM asked) AND kind = 'plan'
)
ALL LEFT JOIN (
  SELECT push, prompt_id, side, layer, tensor_id, toUInt8(1) AS traced
  FROM {db}.trace_row
  WHERE push IN (SELECT push FROM asked) AND pos_id >= 0 AND bitAnd(flags, 8) = 0
  GROUP BY push, prompt_id, side, layer, tensor_id
) USING (push, prompt_id, side, layer, tensor_id)
WHERE isNull(traced)
GROUP BY push, prompt_id
