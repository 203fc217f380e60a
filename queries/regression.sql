-- One row per place where a lineage turned for the worse: the first bad run, the last good one, where
-- values first part ways, and the run that mended it. A verdict turned from PASS to FAIL (BROKEN), or
-- what both phases compute changed beyond rounding (CHANGED), which no verdict of the run itself shows.
CREATE VIEW regression AS
WITH
  c AS MATERIALIZED (
    SELECT
      v.*, n.seed AS seed, n.synthetic AS synthetic,
      CASE WHEN v.change = 'BROKEN' THEN
        CASE WHEN v.baseline_numeric_verdict = 'PASS' AND v.numeric_verdict = 'FAIL' THEN
          CASE WHEN v.baseline_verdict = 'PASS' AND v.verdict = 'FAIL' THEN 'both' ELSE 'numeric' END
        ELSE 'strict' END END AS gate
    FROM change v
    CROSS JOIN run n ON n.id = v.run_id),
  -- runs y after such a run x, of its seed: whether y passes again what x failed, whether it has the values
  -- again that x's baseline had where they first changed, and whether it changed there itself
  later AS MATERIALIZED (
    SELECT
      x.run_id AS bad_id, x.gate AS gate, y.run AS run, y.commit_sha AS commit_sha, y.date AS date,
      y.commit_ord AS commit_ord, y.started_at AS started_at, y.run_id AS run_id,
      CASE x.gate WHEN 'numeric' THEN y.numeric_verdict ELSE y.verdict END = 'PASS' AS passes,
      y.layer = x.layer AND y.tensor = x.tensor AS there,
      CASE WHEN x.gate IS NULL OR y.change = 'CHANGED' THEN EXISTS (
        SELECT 1 FROM place_value g CROSS JOIN place_value h
        WHERE g.run_id = x.baseline_id AND g.prompt = x.prompt AND g.phase = x.phase AND g.pos_id = x.pos_id
          AND g.layer = x.layer AND g.tensor = x.tensor
          AND h.run_id = y.run_id AND h.prompt = x.prompt AND h.phase = x.phase AND h.pos_id = x.pos_id
          AND h.layer = x.layer AND h.tensor = x.tensor AND h.hash = g.hash AND h.n = g.n) END AS restored
    FROM c x
    JOIN c y ON y.lineage = x.lineage AND y.seed IS x.seed AND y.synthetic = x.synthetic
    WHERE x.change IN ('BROKEN', 'CHANGED')
      AND CASE WHEN x.commit_ord <> y.commit_ord THEN y.commit_ord > x.commit_ord
          ELSE (ifnull(y.date, ''), ifnull(y.started_at, ''), length(y.run), y.run)
            > (ifnull(x.date, ''), ifnull(x.started_at, ''), length(x.run), x.run) END),
  mended AS (
    SELECT
      l.*,
      row_number() OVER (PARTITION BY l.bad_id ORDER BY l.commit_ord, l.date, l.started_at, length(l.run), l.run) AS nth
    FROM later l
    WHERE CASE WHEN l.gate IS NULL THEN l.restored ELSE l.passes END)
SELECT
  f.lineage AS lineage,                                -- see view lineage
  f.change AS change,                                  -- BROKEN: a verdict of its own turned; CHANGED: values of both phases did
  f.gate AS gate,                                      -- of BROKEN: strict, numeric or both
  f.run AS first_bad,                                  -- run.name
  f.commit_sha AS first_bad_commit,                    -- its commit
  f.date AS first_bad_date,                            -- its date
  f.baseline AS last_good,                             -- run.name
  f.baseline_commit_sha AS last_good_commit,           -- its commit
  f.baseline_date AS last_good_date,                   -- its date
  CASE WHEN f.gate = 'strict' THEN f.first_fail WHEN f.gate IS NOT NULL THEN f.numeric_first_fail END AS first_fail, -- cause, of BROKEN
  CASE WHEN f.gate IS NULL THEN f.layer WHEN f.gate = 'strict' THEN f.fail_layer ELSE f.numeric_fail_layer END AS layer, -- where prefill and decode part ways; of CHANGED: where the runs do
  CASE WHEN f.gate IS NULL THEN f.tensor WHEN f.gate = 'strict' THEN f.fail_tensor ELSE f.numeric_fail_tensor END AS tensor, -- of that
  m.run AS fixed_run,                                  -- run.name of the first after it that passes again, of BROKEN; that has the values of last_good again where they first changed, of CHANGED; NULL: none yet
  m.commit_sha AS fixed_commit,                        -- its commit
  m.date AS fixed_date,                                -- its date
  f.run_id AS first_bad_id,                            -- run.id
  f.baseline_id AS last_good_id                        -- run.id
FROM c f
LEFT JOIN mended m ON m.bad_id = f.run_id AND m.nth = 1
-- what mends a change is none
WHERE f.change = 'BROKEN'
  OR f.change = 'CHANGED' AND NOT EXISTS (SELECT 1 FROM later w WHERE w.run_id = f.run_id AND w.there AND w.restored);
