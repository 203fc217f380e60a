-- One row per place where a lineage regressed: the first bad run, the last good one, where values first
-- diverge, and the run that fixed it. The verdict turned from PASS to FAIL (BROKEN), or
-- what both phases compute changed beyond rounding (CHANGED), which no verdict of the run itself shows.
-- What a merge has from one of its parents is told where that came.
CREATE VIEW regression AS
WITH RECURSIVE
  c AS MATERIALIZED (
    SELECT
      v.run_id AS run_id, v.baseline_id AS baseline_id, v.run AS run, v.lineage AS lineage, v.change AS change,
      v.verdict AS verdict, v.commit_sha AS commit_sha, v.commit_ord AS commit_ord, v.date AS date,
      v.started_at AS started_at, v.prompt AS prompt, v.phase AS phase, v.pos_id AS pos_id, v.layer AS layer,
      v.tensor AS tensor, v.first_fail AS first_fail, v.fail_layer AS fail_layer, v.fail_tensor AS fail_tensor,
      v.gate AS gate, n.seed AS seed, n.synthetic AS synthetic
    FROM change v
    CROSS JOIN run n ON n.id = v.run_id),
  bad AS MATERIALIZED (
    SELECT v.*, v.change = 'BROKEN' AS broken FROM c v
    WHERE v.change IN ('BROKEN', 'CHANGED')),
  -- commits that have such a run's commit among their ancestors
  descendant(bad_id, sha, ord) AS MATERIALIZED (
    SELECT x.run_id, k.sha, k.ord FROM bad x
    CROSS JOIN commit_node k ON k.sha >= x.commit_sha AND k.sha < x.commit_sha || 'g' AND k.ord = x.commit_ord
    UNION
    SELECT d.bad_id, n.sha, n.ord
    FROM descendant d CROSS JOIN commit_parent p ON p.parent = d.sha CROSS JOIN commit_node n ON n.sha = p.sha),
  -- runs y after such a run x, of its seed: whether y passes again what x failed, whether it has the values
  -- again that x's baseline had where they first changed, and whether it changed there itself
  later AS MATERIALIZED (
    SELECT
      x.run_id AS bad_id, x.broken AS broken, y.run AS run, y.commit_sha AS commit_sha, y.date AS date,
      y.commit_ord AS commit_ord, y.started_at AS started_at, y.run_id AS run_id,
      y.verdict = 'PASS' AS passes,
      y.layer = x.layer AND y.tensor = x.tensor AS there,
      CASE WHEN NOT x.broken OR y.change = 'CHANGED' THEN y.run_id = x.baseline_id AND x.pos_id IS NOT NULL OR EXISTS (
        SELECT 1 FROM comparison s
        WHERE s.run_id = x.baseline_id AND s.other_run_id = y.run_id
          AND s.key_prompt_id = (SELECT p.id FROM prompt p WHERE p.run_id = x.baseline_id AND p.name = x.prompt)
          AND s.side IN (0, 1, 2) AND s.phase_id = (SELECT h.id FROM phase h WHERE h.name = x.phase)
          AND s.key_pos_id = x.pos_id AND s.key_layer = x.layer
          AND s.key_tensor_id = (SELECT t.id FROM tensor t WHERE t.name = x.tensor) AND s.hash_equal) END AS restored,
      -- passes again, but computes something else than was right where x first did
      CASE WHEN x.broken AND y.verdict = 'PASS' AND y.run_id <> x.baseline_id
        THEN EXISTS (
          SELECT 1 FROM comparison_graded s
          WHERE s.run_id = x.baseline_id AND s.other_run_id = y.run_id
            AND s.key_prompt_id = (SELECT p.id FROM prompt p WHERE p.run_id = x.baseline_id AND p.name = x.prompt)
            AND s.side IN (0, 1, 2) AND s.phase_id = (SELECT h.id FROM phase h WHERE h.name = x.phase)
            AND s.key_pos_id = ifnull(x.pos_id, -1) AND s.key_layer = x.layer
            AND s.key_tensor_id = (SELECT t.id FROM tensor t WHERE t.name = x.tensor)
            AND s.fails AND (s.class IS NULL OR s.class = 'DIVERGENT')) END AS differs
    FROM bad x
    JOIN c y ON y.lineage = x.lineage AND y.seed IS x.seed AND y.synthetic = x.synthetic
    WHERE CASE WHEN x.commit_ord <> y.commit_ord
          THEN EXISTS (SELECT 1 FROM descendant d WHERE d.bad_id = x.run_id AND d.ord = y.commit_ord)
          ELSE (ifnull(y.date, ''), ifnull(y.started_at, ''), length(y.run), y.run)
            > (ifnull(x.date, ''), ifnull(x.started_at, ''), length(x.run), x.run) END),
  mended AS (
    SELECT
      l.*,
      row_number() OVER (PARTITION BY l.bad_id ORDER BY l.commit_ord, l.date, l.started_at, length(l.run), l.run) AS nth
    FROM later l
    WHERE CASE WHEN NOT l.broken THEN l.restored ELSE l.passes AND NOT ifnull(l.differs, 0) END),
  -- of the merges among them: what each parent was like, by the nearest run of its history
  parent AS MATERIALIZED (
    SELECT
      f.run_id AS bad_id,
      (SELECT w.run_id
       FROM (
         SELECT
           (SELECT b.run_id FROM baseline_candidate b
            WHERE b.lineage = f.lineage AND b.seed IS f.seed AND b.synthetic = f.synthetic
              AND u.sha >= b.commit_sha AND u.sha < b.commit_sha || 'g'
            ORDER BY b.date DESC, b.started_at DESC, length(b.run) DESC, b.run DESC LIMIT 1) AS run_id
         FROM (
           WITH RECURSIVE up(aside, sha, ord) AS (  -- as in run_baseline
             SELECT 0, n.sha, n.ord FROM commit_node n WHERE n.sha = p.parent
             UNION
             SELECT w.aside OR q.nth > 0, n.sha, n.ord
             FROM up w CROSS JOIN commit_parent q ON q.sha = w.sha CROSS JOIN commit_node n ON n.sha = q.parent
             ORDER BY 1, 3 DESC)
           SELECT up.sha AS sha FROM up) u
         LIMIT -1) w  -- each is asked for once
       WHERE w.run_id IS NOT NULL LIMIT 1) AS run_id
    FROM bad f
    CROSS JOIN commit_node k ON k.sha >= f.commit_sha AND k.sha < f.commit_sha || 'g' AND k.ord = f.commit_ord
    CROSS JOIN commit_parent second ON second.sha = k.sha AND second.nth = 1
    CROSS JOIN commit_parent p ON p.sha = k.sha),
  told AS MATERIALIZED (
    SELECT
      f.*,
      -- of what runs of one commit tell, the first: after that it was probed again
      row_number() OVER (
        PARTITION BY f.baseline_id, f.change, f.lineage, f.seed, f.synthetic, f.commit_ord,
          CASE WHEN f.commit_ord IS NULL THEN f.commit_sha END,
          CASE WHEN f.commit_ord IS NULL AND f.commit_sha IS NULL THEN f.run_id END
        ORDER BY ifnull(f.date, ''), ifnull(f.started_at, ''), length(f.run), f.run) AS nth
    FROM bad f
    -- what mends a change is none
    WHERE (f.change = 'BROKEN'
      OR f.change = 'CHANGED' AND f.run_id NOT IN (SELECT w.run_id FROM later w WHERE w.there AND w.restored))
    -- nor what a merge has from one of its parents: there it turned before
      AND NOT EXISTS (
        SELECT 1 FROM parent p CROSS JOIN verdict v ON v.run_id = p.run_id AND v.level = 'run' AND v.item = ''
        WHERE p.bad_id = f.run_id AND p.run_id <> f.baseline_id
          AND CASE WHEN f.broken THEN v.verdict = 'FAIL'
            ELSE EXISTS (
              SELECT 1 FROM comparison s
              WHERE s.run_id = p.run_id AND s.other_run_id = f.run_id
                AND s.key_prompt_id = (SELECT o.id FROM prompt o WHERE o.run_id = p.run_id AND o.name = f.prompt)
                AND s.side IN (0, 1, 2) AND s.phase_id = (SELECT h.id FROM phase h WHERE h.name = f.phase)
                AND s.key_pos_id = f.pos_id AND s.key_layer = f.layer
                AND s.key_tensor_id = (SELECT t.id FROM tensor t WHERE t.name = f.tensor) AND s.hash_equal) END))
SELECT
  f.lineage AS lineage,                                -- see view lineage
  f.change AS change,                                  -- BROKEN: a verdict of its own turned; CHANGED: values of both phases did
  CASE WHEN f.broken THEN f.gate END AS gate,          -- of BROKEN: strict, numeric: which verdict is the one to act on
  f.run AS first_bad,                                  -- run.name
  f.commit_sha AS first_bad_commit,                    -- its commit
  f.date AS first_bad_date,                            -- its date
  a.name AS last_good,                                 -- run.name
  a.commit_sha AS last_good_commit,                    -- its commit
  a.date AS last_good_date,                            -- its date
  CASE WHEN f.broken THEN f.first_fail END AS first_fail, -- cause, of BROKEN
  CASE WHEN f.broken THEN f.fail_layer ELSE f.layer END AS layer, -- where prefill and decode diverge; of CHANGED: where the runs do
  CASE WHEN f.broken THEN f.fail_tensor ELSE f.tensor END AS tensor, -- of that
  m.run AS fixed_run,                                  -- run.name of the first after it that passes again and has no other values than last_good where they first changed, of BROKEN; that has the values of last_good again where they first changed, of CHANGED; NULL: none yet
  m.commit_sha AS fixed_commit,                        -- its commit
  m.date AS fixed_date,                                -- its date
  f.run_id AS first_bad_id,                            -- run.id
  f.baseline_id AS last_good_id                        -- run.id
FROM told f
CROSS JOIN run a ON a.id = f.baseline_id
LEFT JOIN mended m ON m.bad_id = f.run_id AND m.nth = 1
WHERE f.nth = 1;
