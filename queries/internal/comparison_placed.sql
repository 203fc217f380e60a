-- comparison_origin with whether values first part ways there, strictly and with rounding inputs
-- counting as clean, of what fails. What lies in layers that were not traced, or is a copy of what was
-- not, has no origin that is known: UNSAMPLED.
CREATE VIEW comparison_placed AS
SELECT o.*, k.origin AS origin, k.numeric_origin AS numeric_origin
FROM comparison_origin o
LEFT JOIN origin k ON k.worst_input = CASE WHEN o.fails THEN ifnull(o.worst_input, 0) END
  AND k.unsampled = ifnull(o.unsampled, 1);
