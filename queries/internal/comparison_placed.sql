-- comparison_origin with whether values first part ways there, strictly and with rounding inputs
-- counting as clean, of what fails. What lies in layers that were not traced, or is a copy of what was
-- not, has no origin that is known: UNSAMPLED. No join: whoever counts pairs would walk for each of them.
CREATE VIEW comparison_placed AS
SELECT
  o.*,
  (SELECT k.origin FROM origin k
   WHERE o.fails AND k.worst_input = ifnull(o.worst_input, 0) AND k.unsampled = ifnull(o.unsampled, 1)) AS origin,
  (SELECT k.numeric_origin FROM origin k
   WHERE o.fails AND k.worst_input = ifnull(o.worst_input, 0) AND k.unsampled = ifnull(o.unsampled, 1)) AS numeric_origin
FROM comparison_origin o;
