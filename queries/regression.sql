-- One row per place where a lineage regressed: the first bad run, the last good one, where values first diverge, and
-- the run that fixed it. The verdict turned from PASS to FAIL (BROKEN), or what both phases compute changed beyond
-- rounding (CHANGED), which no verdict of the run itself shows. A merge that has it from one of its parents is left out.
CREATE VIEW regression AS
WITH RECURSIVE
  c AS MATERIALIZED (
    SELECT v.*, m.seed AS seed, m.synthetic AS synthetic, m.date AS day, m.started_at AS began, lag(v.run_id) OVER before AS prior_id, lag(v.change) OVER before AS prior_change,
      EXISTS (SELECT 1 FROM pinned_baseline p WHERE p.lineage = v.lineage AND p.run_id = v.baseline_id) AS pinned
    FROM change v CROSS JOIN lineage_member m ON m.run_id = v.run_id
    WINDOW before AS (PARTITION BY v.lineage, m.seed, m.synthetic ORDER BY v.commit_ord, m.date, m.started_at, v.run_id)),
  -- the row of the run w where the run x first differs from its baseline; SQLite resolves x and w where this is used
  place(hash) AS NOT MATERIALIZED (
    SELECT t.hash
    FROM prompt q CROSS JOIN trace_row t
    WHERE q.run_id = w.run_id AND q.name = x.prompt AND t.run_id = q.run_id AND t.prompt_id = q.id AND t.side IN (0, 1, 2)
      AND t.pos_id = x.pos_id AND t.layer = x.layer AND t.tensor_id = (SELECT k.id FROM tensor k WHERE k.name = x.tensor)
      AND t.phase_id = (SELECT h.id FROM phase h WHERE h.name = x.phase) AND t.stands_in_phase),
  bad AS MATERIALIZED (
    SELECT
      x.*, x.change = 'BROKEN' AS broken,
      (SELECT (SELECT p.hash FROM place p) FROM (SELECT x.baseline_id AS run_id) w) AS was
    FROM c x
    -- held against a pinned run, what follows a bad run is not bad anew
    WHERE x.change IN ('BROKEN', 'CHANGED') AND NOT (x.pinned AND ifnull(x.prior_change, '') IN ('BROKEN', 'CHANGED'))),
  -- commits that have such a run's commit among their ancestors
  descendant(bad_id, sha, ord) AS MATERIALIZED (
    SELECT x.run_id, k.sha, k.ord FROM bad x CROSS JOIN commit_node k ON k.sha >= x.commit_sha AND k.sha < x.commit_sha || 'g' AND k.ord = x.commit_ord
    UNION SELECT d.bad_id, n.sha, n.ord
    FROM descendant d CROSS JOIN commit_parent p ON p.parent = d.sha CROSS JOIN commit_node n ON n.sha = p.sha),
  -- runs w after such a run x, of its seed, that pass again, or have the values again that x's baseline had where
  -- they first changed (restored); there: w changed there itself
  later AS MATERIALIZED (
    SELECT
      x.run_id AS bad_id, x.broken AS broken, w.*,
      w.layer = x.layer AND w.tensor = x.tensor AS there,
      CASE WHEN NOT x.broken OR w.change = 'CHANGED' THEN
        w.run_id = x.baseline_id AND x.pos_id IS NOT NULL OR x.was = (SELECT p.hash FROM place p) END AS restored,
      -- passes again, but computes something else than was right where x first did
      CASE WHEN x.broken AND w.verdict = 'PASS' AND w.run_id <> x.baseline_id THEN EXISTS (
          SELECT 1 FROM comparison_graded s
          WHERE s.run_id = x.baseline_id AND s.other_run_id = w.run_id
            AND s.key_prompt_id = (SELECT p.id FROM prompt p WHERE p.run_id = x.baseline_id AND p.name = x.prompt)
            AND s.side IN (0, 1, 2) AND s.phase_id = (SELECT h.id FROM phase h WHERE h.name = x.phase)
            AND s.key_pos_id = ifnull(x.pos_id, -1) AND s.key_layer = x.layer
            AND s.key_tensor_id = (SELECT t.id FROM tensor t WHERE t.name = x.tensor)
            AND s.fails AND (s.class IS NULL OR s.class = 'DIVERGENT')) END AS differs
    FROM bad x
    JOIN c w ON w.lineage = x.lineage AND w.seed IS x.seed AND w.synthetic = x.synthetic
    WHERE CASE WHEN x.commit_ord <> w.commit_ord THEN w.commit_ord > x.commit_ord
        ELSE (w.day, w.began, w.run_id)
          > (x.day, x.began, x.run_id) END
      AND CASE WHEN x.broken AND w.verdict = 'PASS' OR w.run_id = x.baseline_id OR x.was = (SELECT p.hash FROM place p) THEN
        x.commit_ord <> w.commit_ord IS NOT 1
          OR EXISTS (SELECT 1 FROM descendant d WHERE d.bad_id = x.run_id AND d.ord = w.commit_ord) END),
  mended AS (
    SELECT l.*, row_number() OVER (PARTITION BY l.bad_id ORDER BY l.commit_ord, l.day, l.began, l.run_id) AS nth
    FROM later l
    WHERE CASE WHEN NOT l.broken THEN l.restored ELSE l.verdict = 'PASS' AND NOT ifnull(l.differs, 0) END),
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
            ORDER BY b.date DESC, b.started_at DESC, b.run_id DESC LIMIT 1) AS run_id
         FROM (
           WITH RECURSIVE up(aside, sha, ord) AS (  -- as in lineage
             SELECT 0, n.sha, n.ord FROM commit_node n WHERE n.sha = p.parent UNION
             SELECT w.aside OR q.nth > 0, n.sha, n.ord
             FROM up w CROSS JOIN commit_parent q ON q.sha = w.sha CROSS JOIN commit_node n ON n.sha = q.parent
             ORDER BY 1, 3 DESC) SELECT up.sha AS sha FROM up) u
         LIMIT -1) w  -- each is asked for once
       WHERE w.run_id IS NOT NULL LIMIT 1) AS run_id
    FROM bad f
    CROSS JOIN commit_node k ON k.sha >= f.commit_sha AND k.sha < f.commit_sha || 'g' AND k.ord = f.commit_ord
    CROSS JOIN commit_parent second ON second.sha = k.sha AND second.nth = 1
    CROSS JOIN commit_parent p ON p.sha = k.sha),
  told AS MATERIALIZED (
    SELECT
      x.*,
      -- of what runs of one commit tell, the first: after that it was probed again
      row_number() OVER (
        PARTITION BY x.baseline_id, x.change, x.lineage, x.seed, x.synthetic, x.commit_ord,
          CASE WHEN x.commit_ord IS NULL THEN coalesce(x.commit_sha, x.run_id) END
        ORDER BY x.day, x.began, x.run_id) AS nth
    FROM bad x
    -- what mends a change is none
    WHERE (x.broken OR x.run_id NOT IN (SELECT l.run_id FROM later l WHERE l.there AND l.restored))
    -- nor what a merge has from one of its parents: there it turned before
      AND NOT EXISTS (
        SELECT 1 FROM parent w CROSS JOIN verdict v ON v.run_id = w.run_id AND v.level = 'run' AND v.item = ''
        WHERE w.bad_id = x.run_id AND w.run_id <> x.baseline_id
          AND CASE WHEN x.broken THEN v.verdict = 'FAIL'
            ELSE (SELECT p.hash FROM place p) = (SELECT (SELECT p.hash FROM place p) FROM (SELECT x.run_id AS run_id) w) END))
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
  a.id AS last_good_id                                 -- run.id
FROM told f
CROSS JOIN run a ON a.id = CASE WHEN f.pinned THEN ifnull(f.prior_id, f.baseline_id) ELSE f.baseline_id END
LEFT JOIN mended m ON m.bad_id = f.run_id AND m.nth = 1
WHERE f.nth = 1;
