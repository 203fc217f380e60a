-- Copies all that a merge brings but for runs, sources, trace rows and differences, which are here by now.

-- Rows that the other file saw again. Sightings of files without a common source add up; where they share one, the
-- larger count stands, since nothing tells whose sightings they were.
INSERT INTO main.trace_repeat
  SELECT x.run_id, x.prompt_id, x.side, x.pos_id, x.layer, x.tensor_id, x.nth, p.count
  FROM temp.merge_run r
  CROSS JOIN other.trace_repeat p ON p.run_id = r.other_id
  CROSS JOIN other.trace_row t ON t.run_id = p.run_id AND t.prompt_id = p.prompt_id AND t.side = p.side
    AND t.pos_id = p.pos_id AND t.layer = p.layer AND t.tensor_id = p.tensor_id AND t.nth = p.nth
  CROSS JOIN temp.merge_prompt q ON q.other_id = t.prompt_id
  CROSS JOIN temp.merge_phase h ON h.other_id = t.phase_id
  CROSS JOIN temp.merge_name n ON n.other_id = t.name_id
  CROSS JOIN main.trace_row x ON x.run_id = r.id AND x.prompt_id = q.id AND x.side = h.side
    AND x.pos_id = t.pos_id AND x.layer = t.layer AND x.tensor_id = n.tensor_id
    AND x.phase_id = h.id AND x.step = t.step AND x.name_id = n.id
  WHERE r.has_new
    AND (x.token_id, x.logical_tok_idx, x.n, x.hash, x.min, x.max, x.mean, x.abs_sum, x.nan, x.inf,
         x.nz_count, x.flags & 17)
      IS (t.token_id, t.logical_tok_idx, t.n, t.hash, t.min, t.max, t.mean, t.abs_sum, t.nan, t.inf,
          t.nz_count, t.flags & 17)
    AND (SELECT data FROM main.sample WHERE id = x.sample_id)
      IS (SELECT data FROM other.sample WHERE id = t.sample_id)
  ON CONFLICT DO UPDATE SET
    count = CASE WHEN EXISTS (SELECT 1 FROM temp.merge_run m WHERE m.id = trace_repeat.run_id AND m.overlaps)
                 THEN max(count, excluded.count) ELSE count + excluded.count END;

-- Rows of a new source that are not stored under it were there already.
UPDATE main.source SET duplicates = rows WHERE id IN (SELECT id FROM temp.merge_source WHERE is_new);
UPDATE main.source SET duplicates = max(0, source.rows - c.stored), conflicts = c.conflicts
  FROM (
    SELECT t.source_id AS source_id, count(*) AS stored, sum(CASE WHEN t.nth > 0 THEN EXISTS (
      SELECT 1 FROM main.trace_row e
      WHERE e.run_id = t.run_id AND e.prompt_id = t.prompt_id AND e.side = t.side AND e.pos_id = t.pos_id
        AND e.layer = t.layer AND e.tensor_id = t.tensor_id AND e.phase_id = t.phase_id AND e.step = t.step
        AND e.name_id = t.name_id AND e.nth < t.nth) ELSE 0 END) AS conflicts
    FROM main.trace_row t
    WHERE t.run_id IN (SELECT id FROM temp.merge_run WHERE has_new)
    GROUP BY t.source_id) c
  WHERE c.source_id = source.id AND source.id IN (SELECT id FROM temp.merge_source WHERE is_new);

INSERT OR IGNORE INTO main.plan
  SELECT r.id, q.id, p.side, p.layer, t.id FROM other.plan p
  JOIN temp.merge_run r ON r.other_id = p.run_id JOIN temp.merge_prompt q ON q.other_id = p.prompt_id
  JOIN temp.merge_tensor t ON t.other_id = p.tensor_id;
INSERT INTO main.noise_floor
  SELECT t.id, f.layer, f.model_sha256, f.dtype, f.backend, f.rel_l2, f.gain, f.pairs, f.measured_at
  FROM other.noise_floor f JOIN temp.merge_tensor t ON t.other_id = f.tensor_id WHERE true
  ON CONFLICT DO UPDATE SET (rel_l2, gain, pairs, measured_at)
    = (excluded.rel_l2, excluded.gain, excluded.pairs, excluded.measured_at)
  -- whoever measured it, and when: what comes from elsewhere excuses nothing here
  WHERE (excluded.rel_l2, excluded.measured_at) < (rel_l2, measured_at);
INSERT OR IGNORE INTO main.attribute(run_id, dim, value, rank, leg, source_id)
  SELECT r.id, a.dim, a.value, a.rank, a.leg, s.id FROM other.attribute a
  JOIN temp.merge_run r ON r.other_id = a.run_id
  LEFT JOIN temp.merge_source s ON s.other_id = a.source_id ORDER BY a.id;
INSERT INTO main.run_metric(run_id, leg, prompt, name, value, text, source_id)
  SELECT r.id, x.leg, x.prompt, x.name, x.value, x.text, s.id FROM other.run_metric x
  JOIN temp.merge_source s ON s.other_id = x.source_id AND s.is_new
  JOIN temp.merge_run r ON r.other_id = x.run_id ORDER BY x.id;
INSERT INTO main.log_event
  SELECT s.id, x.line, x.seq, r.id, x.prompt, x.tag, x.step, x.fields, x.text FROM other.log_event x
  JOIN temp.merge_source s ON s.other_id = x.source_id AND s.is_new
  JOIN temp.merge_run r ON r.other_id = x.run_id;
INSERT INTO main.document_row
  SELECT s.id, x.line, x.section, x.cells FROM other.document_row x
  JOIN temp.merge_source s ON s.other_id = x.source_id AND s.is_new;
INSERT INTO main.report
  SELECT s.id, r.id, x.stage FROM other.report x
  JOIN temp.merge_source s ON s.other_id = x.source_id AND s.is_new
  JOIN temp.merge_run r ON r.other_id = x.run_id;
INSERT INTO main.report_pair
  SELECT s.id, x.line, r.id, q.id, x.layer, n.id, x.token_id, x.pos_id, x.status, x.cause,
         x.root_cause, x.details FROM other.report_pair x
  JOIN temp.merge_source s ON s.other_id = x.source_id AND s.is_new
  JOIN temp.merge_run r ON r.other_id = x.run_id JOIN temp.merge_prompt q ON q.other_id = x.prompt_id
  LEFT JOIN temp.merge_name n ON n.other_id = x.name_id;
INSERT INTO main.report_claim(source_id, run_id, line, kind, value, text)
  SELECT s.id, r.id, x.line, x.kind, x.value, x.text FROM other.report_claim x
  JOIN temp.merge_source s ON s.other_id = x.source_id AND s.is_new
  JOIN temp.merge_run r ON r.other_id = x.run_id ORDER BY x.id;
INSERT OR IGNORE INTO main.run_event
  SELECT s.id, x.kind, x.nth, r.id, x.at FROM other.run_event x
  JOIN temp.merge_source s ON s.other_id = x.source_id AND s.is_new
  JOIN temp.merge_run r ON r.other_id = x.run_id;
INSERT OR IGNORE INTO main.ingest_error(source_id, file, line, severity, reason, raw, about)
  SELECT s.id, x.file, x.line, x.severity, x.reason, x.raw, x.about FROM other.ingest_error x
  LEFT JOIN temp.merge_source s ON s.other_id = x.source_id
  WHERE x.source_id IS NULL OR s.is_new ORDER BY x.id;

-- A key holds one readout. Another one of the same key stays as a warning, with all its values.
CREATE TEMP TABLE merge_readout AS
  SELECT r.id AS run_id, q.id AS prompt_id, x.side, x.step, x.pos_id, n.id AS name_id, x.top1_id,
         x.top1_logit, x.top2_id, x.top2_logit, x.gap, x.vocab, x.route, x.cpu_top1_id,
         x.cpu_agrees, x.norm_error, x.logits_error, s.id AS source_id, x.line
  FROM other.readout x
  JOIN temp.merge_source s ON s.other_id = x.source_id AND s.is_new
  JOIN temp.merge_run r ON r.other_id = x.run_id JOIN temp.merge_prompt q ON q.other_id = x.prompt_id
  JOIN temp.merge_name n ON n.other_id = x.name_id;
INSERT OR IGNORE INTO main.ingest_error(source_id, file, line, severity, reason, raw)
  SELECT x.source_id,
         ifnull((SELECT min(path) FROM main.source_location WHERE source_id = x.source_id), ''),
         x.line, 'warning', 'another readout of this prompt, step and position is already there',
         CAST(json_object('top1_id', x.top1_id, 'top1_logit', x.top1_logit, 'top2_id', x.top2_id,
           'top2_logit', x.top2_logit, 'gap', x.gap, 'vocab', x.vocab, 'route', x.route,
           'cpu_top1_id', x.cpu_top1_id, 'cpu_agrees', x.cpu_agrees, 'norm_error', x.norm_error,
           'logits_error', x.logits_error) AS BLOB)
  FROM temp.merge_readout x
  JOIN main.readout y ON y.run_id = x.run_id AND y.prompt_id = x.prompt_id AND y.side = x.side
    AND y.step = x.step AND y.pos_id = x.pos_id AND y.name_id = x.name_id
  WHERE (x.top1_id, x.top1_logit, x.top2_id, x.top2_logit, x.gap, x.vocab, x.route, x.cpu_top1_id,
         x.cpu_agrees, x.norm_error, x.logits_error)
    IS NOT (y.top1_id, y.top1_logit, y.top2_id, y.top2_logit, y.gap, y.vocab, y.route,
            y.cpu_top1_id, y.cpu_agrees, y.norm_error, y.logits_error);
INSERT OR IGNORE INTO main.readout SELECT * FROM temp.merge_readout;

-- Two files may tell a run differently. Nothing is known here: what the other says. Both say something else: the most
-- believed attribute, the smaller text where nothing tells them apart, so that the order of merges does not matter.
WITH
said(id, dim, here, there) AS (
  SELECT m.id, d.dim,
    CASE d.dim WHEN 'date' THEN r.date WHEN 'commit' THEN r.commit_sha WHEN 'mode' THEN r.mode
               WHEN 'dtype' THEN r.dtype ELSE r.seed END,
    CASE d.dim WHEN 'date' THEN o.date WHEN 'commit' THEN o.commit_sha WHEN 'mode' THEN o.mode
               WHEN 'dtype' THEN o.dtype ELSE o.seed END
  FROM temp.merge_run m JOIN main.run r ON r.id = m.id JOIN other.run o ON o.id = m.other_id
  CROSS JOIN (SELECT 'date' AS dim UNION ALL VALUES ('commit'), ('mode'), ('dtype'), ('seed')) d
  WHERE NOT m.is_new
),
settled(id, dim, value) AS (
  SELECT id, dim, CASE WHEN here IS NULL THEN there ELSE coalesce(
    (SELECT a.value FROM main.stated_attribute a WHERE a.run_id = said.id AND a.dim = said.dim
       AND a.value IN (here, there) ORDER BY a.believed LIMIT 1),
    min(here, there)) END
  FROM said
  WHERE there IS NOT NULL AND there IS NOT here
)
UPDATE main.run SET
  date = coalesce((SELECT value FROM settled s WHERE s.id = run.id AND dim = 'date'), date),
  commit_sha = coalesce((SELECT value FROM settled s WHERE s.id = run.id AND dim = 'commit'), commit_sha),
  mode = coalesce((SELECT value FROM settled s WHERE s.id = run.id AND dim = 'mode'), mode),
  dtype = coalesce((SELECT value FROM settled s WHERE s.id = run.id AND dim = 'dtype'), dtype),
  seed = coalesce((SELECT value FROM settled s WHERE s.id = run.id AND dim = 'seed'), seed)
WHERE id IN (SELECT id FROM settled);
UPDATE main.run SET
  (hash_algo, status, synthetic, family, variant, started_at, finished_at) = (
    SELECT CASE WHEN EXISTS (SELECT 1 FROM other.trace_row t WHERE t.run_id = o.id)
                THEN o.hash_algo ELSE run.hash_algo END,
           CASE WHEN 'failed' IN (run.status, o.status) THEN 'failed'
                WHEN 'complete' IN (run.status, o.status) THEN 'complete'
                WHEN 'running' IN (run.status, o.status) THEN 'running' ELSE 'unknown' END,
           max(run.synthetic, o.synthetic),
           coalesce(run.family, o.family), coalesce(run.variant, o.variant),
           coalesce(min(run.started_at, o.started_at), run.started_at, o.started_at),
           coalesce(max(run.finished_at, o.finished_at), run.finished_at, o.finished_at)
    FROM temp.merge_run m JOIN other.run o ON o.id = m.other_id WHERE m.id = run.id)
WHERE id IN (SELECT id FROM temp.merge_run WHERE NOT is_new);
INSERT OR REPLACE INTO main.lineage_member
  SELECT l.* FROM run_lineage l WHERE l.run_id IN (SELECT id FROM temp.merge_run);

-- Verdicts that may change: of runs of both files, of those whose model has other noise floors, and of those that an
-- error of no source counts for. So may the changes of runs whose baseline they are.
CREATE TEMP TABLE merge_changed AS
  SELECT id FROM temp.merge_run
  UNION
  SELECT a.run_id FROM other.noise_floor f
  JOIN main.attribute a ON a.value = f.model_sha256 AND a.dim IN ('model_root', 'model_sha256')
  UNION
  SELECT r.id FROM other.ingest_error e JOIN main.run r ON r.name = e.about
  WHERE e.source_id IS NULL AND e.severity = 'error'
  UNION
  SELECT r.id FROM other.ingest_error e JOIN main.run r ON r.name > e.about || '/' AND r.name < e.about || '0'
  WHERE e.source_id IS NULL AND e.severity = 'error';
DELETE FROM main.verdict WHERE run_id IN (SELECT id FROM temp.merge_changed);
DELETE FROM main.run_change WHERE run_id IN (SELECT id FROM temp.merge_changed);
DELETE FROM main.run_change WHERE baseline_id IN (SELECT id FROM temp.merge_changed);

-- Last, for its changes are counted.
INSERT OR IGNORE INTO main.commit_parent SELECT * FROM other.commit_parent;
INSERT OR IGNORE INTO main.commit_node SELECT * FROM other.commit_node;
