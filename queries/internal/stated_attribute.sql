-- What every source says about a run: attributes of the run and of the directory levels above it, which
-- hold for it too. believed counts from 1: by rank, then nearest, then by value, so that the order of
-- ingest does not matter. Levels are looked up by the beginnings of the run's name, of which there are
-- few: of runs there are many.
CREATE VIEW stated_attribute AS
SELECT
  r.id AS run_id, r.name AS run, l.name AS said_of, a.dim AS dim, a.value AS value, a.rank AS rank,
  a.leg AS leg, a.source_id AS source_id,
  row_number() OVER (PARTITION BY r.id, r.name, a.dim
                     ORDER BY a.rank, length(l.name) DESC, a.value, a.leg, a.id) AS believed
FROM run r
CROSS JOIN run l ON l.name IN (
  WITH RECURSIVE up(level) AS (
    SELECT r.name
    UNION ALL
    -- what is behind the last / goes, then that /
    SELECT substr(rtrim(u.level, replace(u.level, '/', '')), 1,
                  length(rtrim(u.level, replace(u.level, '/', ''))) - 1)
    FROM up u WHERE instr(u.level, '/') > 0)
  SELECT level FROM up)
CROSS JOIN attribute a ON a.run_id = l.id;
