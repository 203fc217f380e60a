-- What every source says about a run: attributes of the run and of the directory levels above it, which
-- hold for it too. believed counts from 1: by rank, then nearest, then by value, so that the order of
-- ingest does not matter.
CREATE VIEW stated_attribute AS
SELECT
  r.id AS run_id, r.name AS run, l.name AS said_of, a.dim AS dim, a.value AS value, a.rank AS rank,
  a.leg AS leg, a.source_id AS source_id,
  row_number() OVER (PARTITION BY r.id, r.name, a.dim
                     ORDER BY a.rank, length(l.name) DESC, a.value, a.leg, a.id) AS believed
FROM run r
JOIN run l ON l.id = r.id OR (l.name < r.name AND instr(r.name, l.name || '/') = 1)
JOIN attribute a ON a.run_id = l.id;
