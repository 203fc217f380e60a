-- What a run's pairs amount to: one row per run, prompt, status, class, scope and cause. first_at
-- orders pairs forward (layer, then tensor, then position) and can be taken apart again:
-- ((forward_layer * 2^16 + tensor_id) * 2^21 + position, or line of a report) * 2^13 + layer + 1, with
-- 8191 for a layer that a report does not name.
-- status UNMET counts planned rows that are not there, LOST how many are fewer than the run says it
-- wrote (attribute trace_rows); every run has one row of status RUN, so that a run without pairs is
-- not lost. run.tally keeps this list while it is current: packed in columns of fixed width, which read ten times faster than JSON fields. No JSON
-- function builds it, because SQLite refuses those in a view while trusted_schema is off.
CREATE VIEW tally AS
SELECT
  r.id AS run_id, r.name AS run,
  CAST(substr(j.value, 1, 10) AS INTEGER) AS prompt_id,
  rtrim(substr(j.value, 11, 12)) AS status,
  nullif(rtrim(substr(j.value, 23, 9)), '') AS class,
  nullif(rtrim(substr(j.value, 32, 6)), '') AS scope,
  CAST(substr(j.value, 38, 10) AS INTEGER) AS count,
  CAST(substr(j.value, 48, 1) AS INTEGER) AS elsewhere,
  CAST(substr(j.value, 49, 20) AS INTEGER) AS first_at,
  nullif(substr(j.value, 69), '') AS cause,
  j.value AS packed
FROM run r, json_each(coalesce(r.tally, (
  SELECT '["' || group_concat(printf('%010d%-12s%-9s%-6s%010d%d%020d%s',
    g.prompt_id, g.status, g.class, g.scope, g.count, g.elsewhere, g.first_at,
    CASE WHEN g.cause GLOB '*[' || char(1) || '-' || char(31) || ']*' THEN 'UNPRINTABLE_DRIFT'
         ELSE replace(replace(g.cause, '\', '\\'), '"', '\"') END), '","') || '"]'
  FROM (
    SELECT
      c.prompt_id, c.status,
      CASE WHEN c.status <> 'DRIFT' THEN NULL
           WHEN c.rel_l2 IS NULL THEN 'UNKNOWN'
           WHEN c.rel_l2 <= c.tolerance THEN 'ROUNDING'
           ELSE 'DIVERGENT' END AS class,
      c.scope,
      CASE WHEN c.reported_cause IS NOT NULL THEN c.reported_cause
           WHEN c.status = 'AMBIGUOUS' THEN 'AMBIGUOUS_TRACE'
           WHEN c.status IN ('DRIFT', 'NONFINITE') THEN coalesce(
             (SELECT t.switch_cause FROM tensor t
              WHERE t.id = c.tensor_id AND t.switch_on IS NOT NULL AND EXISTS (
                SELECT 1 FROM pair_status i
                WHERE i.run_id = r.id AND i.prompt_id = c.prompt_id AND i.pos_id = c.pos_id
                  AND i.layer = c.layer AND i.tensor_id = t.switch_on AND i.status = 'MATCH')),
             (SELECT n.cause FROM tensor_name n WHERE n.id = c.name_id)) END AS cause,
      count(*) AS count,
      min(((CASE WHEN t.stage = 'head' THEN 8191
                 WHEN c.layer >= 0 THEN c.layer
                 WHEN t.stage = 'embed' THEN 0
                 ELSE 8191 END * 65536 + ifnull(c.tensor_id, 65535)) * 2097152
           + min(ifnull(c.at, 0), 2097151)) * 8192 + ifnull(c.layer + 1, 8191)) AS first_at,
      max(c.elsewhere) AS elsewhere
    FROM (
      SELECT prompt_id, status, scope, rel_l2, tolerance, NULL AS reported_cause, pos_id,
             pos_id AS at, layer, tensor_id, name_id, 0 AS elsewhere
      FROM pair_status WHERE run_id = r.id
      UNION ALL
      SELECT prompt_id, status, NULL, NULL, NULL, 'TRACE_OFFSET', pos_id,
             pos_id, layer, tensor_id, name_id, elsewhere
      FROM pair_prefill_only WHERE run_id = r.id
      UNION ALL
      SELECT prompt_id, status, NULL, NULL, NULL,
             CASE status WHEN 'MISSING' THEN 'TRACE_OFFSET' END, pos_id,
             pos_id, layer, tensor_id, name_id, CASE status WHEN 'MISSING' THEN elsewhere ELSE 0 END
      FROM pair_decode_only WHERE run_id = r.id
      UNION ALL
      SELECT prompt_id, status, NULL, NULL, NULL, cause, pos_id,
             line, layer, tensor_id, name_id, 0
      FROM pair_report WHERE run_id = r.id
    ) c
    LEFT JOIN tensor t ON t.id = c.tensor_id
    GROUP BY 1, 2, 3, 4, 5
    UNION ALL
    SELECT l.prompt_id, 'UNMET', NULL, NULL, NULL, count(*), NULL, 0
    FROM plan l
    WHERE l.run_id = r.id AND NOT EXISTS (
      SELECT 1 FROM trace_row x
      WHERE x.run_id = l.run_id AND x.prompt_id = l.prompt_id AND x.side = l.side
        AND x.layer = l.layer AND x.tensor_id = l.tensor_id)
    GROUP BY l.prompt_id
    UNION ALL
    SELECT 0, 'LOST', NULL, NULL, NULL, min(max(CAST(a.value AS INTEGER))
             - (SELECT count(*) FROM trace_row x WHERE x.run_id = r.id)
             - (SELECT ifnull(sum(x.count), 0) FROM trace_repeat x WHERE x.run_id = r.id), 9999999999),
           NULL, 0
    FROM attribute a
    WHERE a.run_id = r.id AND a.dim = 'trace_rows'
    GROUP BY a.run_id
    HAVING max(CAST(a.value AS INTEGER))
           > (SELECT count(*) FROM trace_row x WHERE x.run_id = r.id)
             + (SELECT ifnull(sum(x.count), 0) FROM trace_repeat x WHERE x.run_id = r.id)
    UNION ALL
    SELECT 0, 'RUN', NULL, NULL, NULL, 0, NULL, 0
  ) g))) j;
