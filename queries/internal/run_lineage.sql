-- The lineage of a run: runs of one experiment, mode, backend, dtype, model and suite, as the run itself states
-- them, in small letters and fp16 as f16; '-' where it does not. The KV cache's type follows where it is not f32, which is
-- what nothing said of it means. lineage_member has the rows of it, kept by triggers.
CREATE VIEW run_lineage AS
SELECT
  r.id AS run_id,
  r.experiment || lower('/' || ifnull(r.mode, '-') || '/' || ifnull(
    (SELECT trim(a.value, ' ' || char(9)) FROM attribute a WHERE a.run_id = r.id AND a.dim = 'backend' ORDER BY a.rank, a.value LIMIT 1), '-')
  || '/' || ifnull(replace(r.dtype, 'fp', 'f'), '-') || '/' || coalesce(
    (SELECT trim(a.value, ' ' || char(9)) FROM attribute a WHERE a.run_id = r.id AND a.dim = 'model' ORDER BY a.rank, a.value LIMIT 1),
    (SELECT a.value FROM attribute a WHERE a.run_id = r.id AND a.dim = 'model_file' ORDER BY a.rank, a.value LIMIT 1), '-')
  || '/' || ifnull(
    (SELECT trim(a.value, ' ' || char(9)) FROM attribute a WHERE a.run_id = r.id AND a.dim = 'suite' ORDER BY a.rank, a.value LIMIT 1), '-')
  || ifnull(
    (SELECT '/kv_cache=' || nullif(replace(a.value, 'fp', 'f'), 'f32') FROM attribute a
     WHERE a.run_id = r.id AND a.dim = 'kv_cache' ORDER BY a.rank, a.value LIMIT 1), '')) AS lineage,
  EXISTS (SELECT 1 FROM attribute a WHERE a.run_id = r.id AND a.dim = 'inject'
    AND a.value LIKE '%@%') AS injected,  -- rope_theta@decode:layer=2; "none" is no fault
  r.name AS run, coalesce(r.date, substr(r.started_at, 1, 10), '') AS date,
  ifnull(rtrim(r.started_at, 'Z'), '~') AS started_at,  -- so that 10:00:00.5 is behind 10:00:00
  r.seed AS seed, r.synthetic AS synthetic
FROM run r;
