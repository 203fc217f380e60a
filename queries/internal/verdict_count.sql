-- tally summed per run (prompt_id 0) and per run and prompt.
CREATE VIEW verdict_count AS
SELECT
  t.run AS run, t.run_id AS run_id, l.of_prompt * t.prompt_id AS prompt_id,
  sum(CASE WHEN t.status IN ('MATCH', 'DRIFT', 'NONFINITE', 'AMBIGUOUS', 'INCOMPARABLE')
      THEN t.count ELSE 0 END) AS pairs,
  sum(CASE WHEN t.status = 'MATCH' THEN t.count ELSE 0 END) AS pass,
  sum(CASE WHEN t.status IN ('DRIFT', 'NONFINITE', 'AMBIGUOUS') THEN t.count ELSE 0 END) AS fail,
  sum(CASE WHEN t.status = 'DRIFT' THEN t.count ELSE 0 END) AS drift,
  sum(CASE WHEN t.class = 'ROUNDING' THEN t.count ELSE 0 END) AS rounding,
  sum(CASE WHEN t.class = 'DIVERGENT' THEN t.count ELSE 0 END) AS divergent,
  sum(CASE WHEN t.class = 'UNKNOWN' THEN t.count ELSE 0 END) AS unmeasured,
  sum(CASE WHEN t.status = 'MISSING' THEN t.count ELSE 0 END) AS missing,
  max(CASE WHEN t.status = 'MISSING' THEN t.elsewhere ELSE 0 END) AS missing_elsewhere,
  sum(CASE WHEN t.status = 'DECODE_ONLY' THEN t.count ELSE 0 END) AS decode_only,
  sum(CASE WHEN t.status = 'INCOMPARABLE' THEN t.count ELSE 0 END) AS incomparable,
  max(sum(CASE WHEN t.status = 'UNMET' THEN t.count ELSE 0 END),
      sum(CASE WHEN t.status = 'LOST' THEN t.count ELSE 0 END)) AS unmet,
  sum(CASE WHEN t.scope <> 'full' THEN t.count ELSE 0 END) AS partial,
  -- sort key of the earliest: layer and ord, then prompt, then all of first_at; then its cause
  min(CASE WHEN t.status = 'MISSING' THEN
    printf('%020d%010d%020d%s', t.forward, t.prompt_id, t.first_at, t.cause) END) AS missing_key,
  min(CASE WHEN t.status IN ('DRIFT', 'NONFINITE', 'AMBIGUOUS') THEN
    printf('%020d%010d%020d%s', t.forward, t.prompt_id, t.first_at, t.cause) END) AS drift_key,
  min(CASE WHEN t.class = 'DIVERGENT' OR t.status IN ('NONFINITE', 'AMBIGUOUS') THEN
    printf('%020d%010d%020d%s', t.forward, t.prompt_id, t.first_at, t.cause) END) AS divergent_key
FROM (SELECT y.*, ((y.first_at >> 50) << 20) + ifnull(
        (SELECT ord FROM tensor WHERE id = (y.first_at >> 34) & 65535), 65535) AS forward
      FROM tally y) t CROSS JOIN (SELECT 0 AS of_prompt UNION ALL SELECT 1) l
WHERE l.of_prompt = 0 OR t.prompt_id > 0
GROUP BY t.run, t.run_id, l.of_prompt * t.prompt_id;
