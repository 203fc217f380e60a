-- One row per run: its lineage, and the run that it is compared with across commits and dates, its baseline. A
-- lineage is the runs of one experiment, mode, backend, dtype, model, suite and type of the KV cache. The baseline is
-- the run that somebody pinned for the lineage, where it came before this one, else the last run of the lineage and seed before this one: of the
-- nearest ancestor of its commit that has one, where the commit is known (commit_node), by first parents before any
-- others; else by time: by date, then by when they started, then in the order of their ingest; runs that do not say when
-- they started are after those that do. It is never of the same commit; COMMIT-dirty is another one, held against COMMIT. A run whose rows cannot be compared with its
-- own is taken only if there is no other.
CREATE VIEW lineage AS
SELECT
  b.lineage AS lineage,                                -- experiment/mode/backend/dtype/model/suite; /kv_cache=TYPE behind it where that is not f32
  b.run AS run,                                        -- run.name
  b.stated_date AS date,                               -- YYYY-MM-DD; NULL unknown
  b.stated_sha AS commit_sha,                          -- commit of the engine that ran
  a.name AS baseline,                                  -- run.name; NULL: there is none, or a fault was injected
  (SELECT 1 FROM pinned_baseline p WHERE p.lineage = b.lineage AND p.run_id = a.id) IS NOT NULL AS pinned, -- 1: somebody chose it
  b.injected AS injected,                              -- 1: with a fault on purpose, so it has no baseline and is none
  (SELECT c.ord FROM commit_node c WHERE c.sha = b.sha) AS commit_ord, -- parents before children; NULL where the commit is not known
  a.id AS baseline_id,                                 -- run.id
  b.run_id AS run_id                                   -- run.id
FROM (
  SELECT
    r.*,
    CASE WHEN NOT r.injected THEN coalesce(
      (SELECT p.run_id FROM pinned_baseline p CROSS JOIN lineage_member m ON m.run_id = p.run_id
       WHERE p.lineage = r.lineage AND (m.date, m.started_at, m.run_id) < (r.date, r.started_at, r.run_id)),
      -- what was changed in a checkout is held against what was checked out
      (SELECT b.run_id FROM run o CROSS JOIN baseline_candidate b ON b.run_id = o.id
       WHERE o.commit_sha BETWEEN substr(r.clean_sha, 1, 7) AND r.clean_sha || 'g'
         AND (o.commit_sha = r.clean_sha OR o.commit_sha || r.clean_sha NOT GLOB '*[^0-9a-f]*' AND length(r.clean_sha) >= 7
           AND substr(o.commit_sha, 1, length(r.clean_sha)) = substr(r.clean_sha, 1, length(o.commit_sha)))
         AND b.lineage = r.lineage AND b.seed IS r.seed AND b.synthetic = r.synthetic
       ORDER BY b.date DESC, b.started_at DESC, b.run_id DESC LIMIT 1),
      (SELECT w.run_id
       FROM (
         SELECT
           (SELECT c.run_id
            FROM (
              -- where no ancestor is looked for: those before it in time, the last first, so that few are asked whether
              -- they can be compared
              SELECT t.run_id
              FROM (
                SELECT b.run_id AS run_id FROM baseline_candidate b
                WHERE u.sha IS NULL AND b.lineage = r.lineage AND b.seed IS r.seed AND b.synthetic = r.synthetic
                  -- the index finds the first: by a text of no column (+), else SQLite takes the date alone from it
                  AND (b.date, b.started_at, b.run_id) < (r.date, +r.started_at, r.run_id)
                  -- of one commit: by as many digits as both have; what is no SHA, and one of zeros, is none
                  AND (b.stated_sha || r.stated_sha NOT GLOB '*[^0-9a-f]*' AND trim(r.stated_sha, '0') <> ''
                    AND substr(b.stated_sha, 1, max(7, min(length(b.stated_sha), length(r.stated_sha))))
                      = substr(r.stated_sha, 1, max(7, min(length(b.stated_sha), length(r.stated_sha))))) IS NOT 1
                ORDER BY b.date DESC, b.started_at DESC, b.run_id DESC
                LIMIT -1) t
              UNION ALL
              SELECT t.run_id  -- else those of the ancestor
              FROM (
                SELECT b.run_id AS run_id
                FROM run o CROSS JOIN baseline_candidate b ON b.run_id = o.id
                WHERE u.ord IS NOT NULL AND o.commit_sha BETWEEN substr(u.sha, 1, 7) AND u.sha AND u.sha < o.commit_sha || 'g'
                  AND b.lineage = r.lineage AND b.seed IS r.seed AND b.synthetic = r.synthetic
                ORDER BY b.date DESC, b.started_at DESC, b.run_id DESC
                LIMIT -1) t) c
            WHERE CASE WHEN u.comparable
              THEN NOT EXISTS (SELECT 1 FROM run_pair q WHERE q.run_a_id = c.run_id AND q.run_b_id = r.run_id AND q.why_not IS NOT NULL)
              ELSE 1 END
            LIMIT 1) AS run_id
         FROM (
           -- its own commit, where ord is NULL, then ancestors, the nearest first, down to the first that a run of
           -- the lineage is of; all of that a second time for runs that cannot be compared
           WITH RECURSIVE up(comparable, aside, sha, ord, least) AS (
             SELECT k.column1, 0, r.sha, NULL,
               -- no run's commit is before this one
             (SELECT min(n.ord) FROM run o CROSS JOIN commit_node n ON n.sha >= o.commit_sha AND n.sha < o.commit_sha || 'g'
              WHERE length(o.commit_sha) >= 7)
           FROM (VALUES (1), (0)) k
             UNION
             SELECT u.comparable, u.aside OR p.nth > 0, n.sha, n.ord, u.least
             FROM up u CROSS JOIN commit_parent p ON p.sha = u.sha CROSS JOIN commit_node n ON n.sha = p.parent
             WHERE n.ord >= u.least
             ORDER BY 1 DESC, 2, 4 DESC)
           SELECT up.sha AS sha, up.ord AS ord, up.comparable AS comparable FROM up) u
         LIMIT -1) w  -- each is asked for once
       WHERE w.run_id IS NOT NULL
       LIMIT 1)) END AS baseline_id
  FROM (
    SELECT
      m.run_id AS run_id, m.run AS run, m.lineage AS lineage, m.injected AS injected, m.date AS date,
      m.started_at AS started_at, m.seed AS seed, m.synthetic AS synthetic, n.commit_sha AS stated_sha, n.date AS stated_date,
      CASE WHEN n.commit_sha LIKE '%-dirty' THEN substr(n.commit_sha, 1, length(n.commit_sha) - 6) END AS clean_sha,
      (SELECT c.sha FROM commit_node c
       WHERE c.sha >= n.commit_sha AND c.sha < n.commit_sha || 'g' AND length(n.commit_sha) >= 7 LIMIT 1) AS sha
    FROM lineage_member m
    JOIN run n ON n.id = m.run_id) r
) b
LEFT JOIN run a ON a.id = b.baseline_id
WHERE NOT EXISTS (SELECT 1 FROM directory_level d WHERE d.run_id = b.run_id);
