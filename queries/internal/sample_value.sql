-- One row per value of a sample, from index 0: its bits as they are stored, little-endian f32, and the value (of
-- infinity and NaN, what their exponent says). Name the sample's id.
CREATE VIEW sample_value AS
SELECT
  b.id AS id, b.i AS i, b.bits AS bits,
  (1 - 2 * (b.bits >> 31)) * CASE WHEN b.bits & 0x7f800000 THEN (b.bits & 0x7fffff) + 0x800000 ELSE 2 * (b.bits & 0x7fffff) END
    * pow(2, ((b.bits >> 23) & 255) - 150) AS value
FROM (
  SELECT
    h.id AS id, h.i AS i,
    instr('123456789ABCDEF', substr(h.digits, 2, 1)) | (instr('123456789ABCDEF', substr(h.digits, 1, 1)) << 4)
      | (instr('123456789ABCDEF', substr(h.digits, 4, 1)) << 8) | (instr('123456789ABCDEF', substr(h.digits, 3, 1)) << 12)
      | (instr('123456789ABCDEF', substr(h.digits, 6, 1)) << 16) | (instr('123456789ABCDEF', substr(h.digits, 5, 1)) << 20)
      | (instr('123456789ABCDEF', substr(h.digits, 8, 1)) << 24) | (instr('123456789ABCDEF', substr(h.digits, 7, 1)) << 28) AS bits
  FROM (
    SELECT s.id AS id, e.key AS i, hex(substr(s.data, 4 * e.key + 1, 4)) AS digits
    FROM sample s
    CROSS JOIN json_each('[' || substr(replace(hex(zeroblob(s.n)), '00', ',0'), 2) || ']') e) h) b;
