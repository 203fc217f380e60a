-- One row per push that has trace rows: how many, the sum of their hashes, how many of them no document alone states,
-- and whether several stand at one place and side.
SELECT push, toUInt64(count()) AS total, sum({hash}) AS said, toUInt64(sum(bitAnd(flags, 8) = 0)) AS written, toUInt8(max(crowded)) AS any_crowded
FROM {db}.trace_row
WHERE push IN (SELECT push FROM asked)
GROUP BY push
