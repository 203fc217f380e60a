-- verdict_row of the runs of which it is not kept: unsummed_tally summed, per run and per run and prompt.
CREATE VIEW unkept_verdict_row AS
SELECT
  w.run_id AS run_id, w.run AS run, w.prompt_id AS prompt_id, w.pairs AS pairs, w.pass AS pass, w.fail AS fail,
  w.drift AS drift, w.nonfinite AS nonfinite, w.rounding AS rounding, w.divergent AS divergent, w.unmeasured AS unmeasured,
  w.missing AS missing, w.missing_elsewhere AS missing_elsewhere, w.decode_only AS decode_only,
  w.prefill_only AS prefill_only, w.claimed AS claimed,
  w.incomparable AS incomparable, w.unmet AS unmet, w.partial AS partial,
  w.fail_cause AS fail_cause, w.fail_layer AS fail_layer, w.fail_tensor_id AS fail_tensor_id,
  w.fail_name_id AS fail_name_id, w.fail_pos_id AS fail_pos_id, w.fail_token_id AS fail_token_id,
  w.fail_report_line AS fail_report_line, w.fail_prompt_id AS fail_prompt_id,
  w.drift_cause AS drift_cause, w.drift_layer AS drift_layer,
  w.drift_tensor_id AS drift_tensor_id, w.drift_name_id AS drift_name_id,
  w.drift_pos_id AS drift_pos_id, w.drift_token_id AS drift_token_id,
  w.drift_report_line AS drift_report_line, w.drift_prompt_id AS drift_prompt_id,
  w.divergent_cause AS divergent_cause, w.divergent_layer AS divergent_layer,
  w.divergent_tensor_id AS divergent_tensor_id, w.divergent_name_id AS divergent_name_id,
  w.divergent_pos_id AS divergent_pos_id, w.divergent_token_id AS divergent_token_id,
  w.divergent_report_line AS divergent_report_line, w.divergent_prompt_id AS divergent_prompt_id
FROM (
  SELECT
    t.run_id AS run_id, t.run AS run, t.prompt_id AS prompt_id,
    sum(t.pairs) OVER part AS pairs,
    sum(CASE WHEN t.status = 'MATCH' THEN t.count ELSE 0 END) OVER part AS pass,
    sum(CASE WHEN t.fails THEN t.count ELSE 0 END) OVER part AS fail,
    sum(CASE WHEN t.status = 'DRIFT' THEN t.count ELSE 0 END) OVER part AS drift,
    sum(CASE WHEN t.status = 'NONFINITE' THEN t.count ELSE 0 END) OVER part AS nonfinite,
    sum(CASE WHEN t.class = 'ROUNDING' THEN t.count ELSE 0 END) OVER part AS rounding,
    sum(CASE WHEN t.class = 'DIVERGENT' THEN t.count ELSE 0 END) OVER part AS divergent,
    sum(CASE WHEN t.class = 'UNKNOWN' THEN t.count ELSE 0 END) OVER part AS unmeasured,
    sum(CASE WHEN t.status = 'MISSING' THEN t.count ELSE 0 END) OVER part AS missing,
    max(CASE WHEN t.status = 'MISSING' THEN t.elsewhere ELSE 0 END) OVER part AS missing_elsewhere,
    sum(CASE WHEN t.status = 'DECODE_ONLY' THEN t.count ELSE 0 END) OVER part AS decode_only,
    sum(CASE WHEN t.status = 'PREFILL_ONLY' THEN t.count ELSE 0 END) OVER part AS prefill_only,
    sum(t.claimed) OVER part AS claimed,
    sum(CASE WHEN t.status = 'INCOMPARABLE' THEN t.count ELSE 0 END) OVER part AS incomparable,
    max(sum(CASE WHEN t.status = 'UNMET' THEN t.count ELSE 0 END) OVER part,
        sum(CASE WHEN t.status = 'LOST' THEN t.count ELSE 0 END) OVER part) AS unmet,
    sum(CASE WHEN t.scope <> 'full' THEN t.count ELSE 0 END) OVER part AS partial,
    row_number() OVER part AS nth,
    first_value(CASE WHEN t.blamed THEN t.cause END) OVER fail AS fail_cause,
    first_value(CASE WHEN t.blamed THEN t.layer END) OVER fail AS fail_layer,
    first_value(CASE WHEN t.blamed THEN t.tensor_id END) OVER fail AS fail_tensor_id,
    first_value(CASE WHEN t.blamed THEN t.name_id END) OVER fail AS fail_name_id,
    first_value(CASE WHEN t.blamed THEN t.pos_id END) OVER fail AS fail_pos_id,
    first_value(CASE WHEN t.blamed THEN t.token_id END) OVER fail AS fail_token_id,
    first_value(CASE WHEN t.blamed THEN t.report_line END) OVER fail AS fail_report_line,
    first_value(CASE WHEN t.blamed THEN t.of_prompt_id END) OVER fail AS fail_prompt_id,
    first_value(CASE WHEN t.fails THEN t.cause END) OVER drift AS drift_cause,
    first_value(CASE WHEN t.fails THEN t.layer END) OVER drift AS drift_layer,
    first_value(CASE WHEN t.fails THEN t.tensor_id END) OVER drift AS drift_tensor_id,
    first_value(CASE WHEN t.fails THEN t.name_id END) OVER drift AS drift_name_id,
    first_value(CASE WHEN t.fails THEN t.pos_id END) OVER drift AS drift_pos_id,
    first_value(CASE WHEN t.fails THEN t.token_id END) OVER drift AS drift_token_id,
    first_value(CASE WHEN t.fails THEN t.report_line END) OVER drift AS drift_report_line,
    first_value(CASE WHEN t.fails THEN t.of_prompt_id END) OVER drift AS drift_prompt_id,
    first_value(CASE WHEN t.diverges THEN t.cause END) OVER divergent AS divergent_cause,
    first_value(CASE WHEN t.diverges THEN t.layer END) OVER divergent AS divergent_layer,
    first_value(CASE WHEN t.diverges THEN t.tensor_id END) OVER divergent AS divergent_tensor_id,
    first_value(CASE WHEN t.diverges THEN t.name_id END) OVER divergent AS divergent_name_id,
    first_value(CASE WHEN t.diverges THEN t.pos_id END) OVER divergent AS divergent_pos_id,
    first_value(CASE WHEN t.diverges THEN t.token_id END) OVER divergent AS divergent_token_id,
    first_value(CASE WHEN t.diverges THEN t.report_line END) OVER divergent AS divergent_report_line,
    first_value(CASE WHEN t.diverges THEN t.of_prompt_id END) OVER divergent AS divergent_prompt_id
  FROM (
    SELECT
      y.run_id AS run_id, y.run AS run, l.of_prompt * y.prompt_id AS prompt_id,
      y.prompt_id AS of_prompt_id, y.status AS status, y.class AS class, y.scope AS scope,
      y.cause AS cause, y.count AS count, y.pairs AS pairs, y.claimed AS claimed, y.elsewhere AS elsewhere,
      y.forward_layer AS forward_layer, y.layer AS layer, y.tensor_id AS tensor_id,
      y.name_id AS name_id, y.pos_id AS pos_id, y.token_id AS token_id,
      y.report_line AS report_line,
      s.fails AS fails, s.blamed AS blamed,
      s.fails AND (y.class IS NULL OR y.class = 'DIVERGENT') AS diverges,
      (SELECT k.ord FROM tensor k WHERE k.id = y.tensor_id) AS ord,
      (SELECT k.name FROM tensor k WHERE k.id = y.tensor_id) AS tensor,
      (SELECT q.name FROM prompt q WHERE q.id = y.prompt_id) AS prompt
    FROM unsummed_tally y
    CROSS JOIN (SELECT 0 AS of_prompt UNION ALL SELECT 1) l
    LEFT JOIN status s ON s.name = y.status
    WHERE l.of_prompt = 0 OR y.prompt_id > 0
  ) t
  WINDOW
    part AS (PARTITION BY t.run_id, t.prompt_id, t.run),
    fail AS (PARTITION BY t.run_id, t.prompt_id, t.run
      ORDER BY t.blamed DESC, t.status = 'MISSING' DESC, t.forward_layer, t.ord IS NULL, t.ord,
        t.prompt, t.tensor, ifnull(t.report_line, t.pos_id), t.cause
      ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING),
    drift AS (PARTITION BY t.run_id, t.prompt_id, t.run
      ORDER BY t.fails DESC, t.forward_layer, t.ord IS NULL, t.ord,
        t.prompt, t.tensor, ifnull(t.report_line, t.pos_id), t.cause
      ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING),
    divergent AS (PARTITION BY t.run_id, t.prompt_id, t.run
      ORDER BY t.diverges DESC, t.forward_layer, t.ord IS NULL, t.ord,
        t.prompt, t.tensor, ifnull(t.report_line, t.pos_id), t.cause
      ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
) w
WHERE w.nth = 1;
