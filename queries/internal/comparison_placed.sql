-- comparison_origin with whether values first part ways there, strictly and with rounding inputs
-- counting as clean. What lies in layers that were not traced, or is a copy of what was not, has no
-- origin that is known: UNSAMPLED.
CREATE VIEW comparison_placed AS
SELECT
  o.*,
  CASE WHEN o.fails THEN
    CASE WHEN o.worst_input IN (2, 4) THEN 'PROPAGATED'
         WHEN o.worst_input = 1 AND NOT o.unsampled THEN 'ORIGIN' ELSE 'UNSAMPLED' END END AS origin,
  CASE WHEN o.fails THEN
    CASE WHEN o.worst_input = 4 THEN 'PROPAGATED'
         WHEN o.worst_input IN (1, 2) AND NOT o.unsampled THEN 'ORIGIN' ELSE 'UNSAMPLED' END END AS numeric_origin,
  -- from the earliest traced input to here, in words
  CASE WHEN o.fails AND o.worst_input < 4 THEN printf('between %s%s and %s%s',
      (SELECT t.name FROM tensor t WHERE t.id = o.since_tensor_id),
      CASE WHEN (SELECT t.stage FROM tensor t WHERE t.id = o.since_tensor_id) <> 'layer' OR o.since_layer = o.layer
        THEN '' ELSE ' of layer ' || o.since_layer END,
      (SELECT m.name FROM tensor_name m WHERE m.id = o.name_id),
      CASE o.stage WHEN 'layer' THEN ' of layer ' || o.layer ELSE '' END) END AS segment,
  -- the layers in between that tell more when they are traced, as --layers takes them
  CASE WHEN o.fails AND o.worst_input < 4 AND o.unsampled THEN
    (SELECT CASE WHEN r.first < r.last THEN r.first || '-' || r.last WHEN r.first = r.last THEN '' || r.first END
     FROM (SELECT o.since_layer + 1 AS first,
             CASE WHEN o.stage = 'layer' THEN o.layer - 1 ELSE o.n_layers - 1 END AS last) r)
  END AS untraced_layers
FROM (
  SELECT
    p.*,
    (SELECT max(CAST(a.value AS INTEGER)) FROM attribute a WHERE a.run_id = p.run_id AND a.dim = 'n_layers') AS n_layers,
    CASE
      WHEN p.since_layer IS NULL THEN 1
      -- whole layers between
      WHEN p.stage = 'layer' THEN p.since_layer + 1 < p.layer
      -- after the stack: layers beyond the last one traced, unless there are none
      WHEN (SELECT t.stage FROM tensor t WHERE t.id = p.since_tensor_id) = 'layer' THEN p.since_layer + 1 IS NOT (
        SELECT max(CAST(a.value AS INTEGER)) FROM attribute a WHERE a.run_id = p.run_id AND a.dim = 'n_layers')
      ELSE 0
    END
    -- a copy from another layer, and what it copies was not traced
    OR EXISTS (SELECT 1 FROM edge e WHERE e.to_id = p.tensor_id AND e.kind = 'copy' AND e.layer <> 'same'
         AND (e.layer <> 'previous' OR p.layer > 0))
      AND NOT EXISTS (SELECT 1 FROM edge e WHERE e.to_id = p.tensor_id AND e.from_id = p.since_tensor_id
                        AND e.kind IN ('copy', 'alias')) AS unsampled
  FROM comparison_origin p
) o;
