-- What a run's comparisons amount to: one row per run, prompt, status, class, scope and cause, with
-- how many there are, how many of them have both sides and, of those with a cause, which is the first
-- in forward order. Status UNMET counts planned rows that are not there, and announced prompts without any,
-- LOST how many are fewer than the run says it wrote, REFUTED readouts that double arithmetic does not bear
-- out; every run has one row of status RUN, so that a run without comparisons is not lost.
-- The rows of kept_tally stand for those of a run that was judged; of other runs they are worked out.
CREATE VIEW tally AS
SELECT
  t.run_id AS run_id, t.run AS run, t.prompt_id AS prompt_id, t.status AS status,
  t.class AS class, t.scope AS scope, t.cause AS cause, t.count AS count, t.pairs AS pairs,
  t.claimed AS claimed,
  t.elsewhere AS elsewhere, t.forward_layer AS forward_layer, t.layer AS layer,
  t.tensor_id AS tensor_id, t.name_id AS name_id, t.pos_id AS pos_id, t.token_id AS token_id,
  t.report_line AS report_line
FROM kept_tally_row t
UNION ALL
SELECT
  u.run_id, u.run, u.prompt_id, u.status, u.class, u.scope, u.cause, u.count, u.pairs, u.claimed, u.elsewhere,
  u.forward_layer, u.layer, u.tensor_id, u.name_id, u.pos_id, u.token_id, u.report_line
FROM unkept_tally u;
