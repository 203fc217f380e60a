-- comparison_origin with whether values first part ways there, strictly and with rounding inputs
-- counting as clean. What lies in layers that were not traced, or is a copy of what was not, has no
-- origin that is known: UNSAMPLED.
CREATE VIEW comparison_placed AS
SELECT
  o.*,
  CASE WHEN o.fails THEN
    CASE o.worst_input WHEN 2 THEN 'PROPAGATED' WHEN 4 THEN 'PROPAGATED'
      WHEN 1 THEN CASE o.unsampled WHEN 0 THEN 'ORIGIN' ELSE 'UNSAMPLED' END ELSE 'UNSAMPLED' END END AS origin,
  CASE WHEN o.fails THEN
    CASE o.worst_input WHEN 4 THEN 'PROPAGATED'
      WHEN 1 THEN CASE o.unsampled WHEN 0 THEN 'ORIGIN' ELSE 'UNSAMPLED' END
      WHEN 2 THEN CASE o.unsampled WHEN 0 THEN 'ORIGIN' ELSE 'UNSAMPLED' END ELSE 'UNSAMPLED' END END AS numeric_origin
FROM comparison_origin o;
