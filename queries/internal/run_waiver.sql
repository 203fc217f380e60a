-- Waivers that are in force for a run: of its trace points, one row per waiver. Their day has not passed, and
-- the run is dated up to it: what says no date is not waived.
CREATE VIEW run_waiver AS
SELECT
  w.id AS waiver_id, r.id AS run_id, r.name AS run, t.id AS tensor_id, w.tensor AS tensor, w.layer AS layer,
  w.until AS until, w.reason AS reason, w.created_by AS created_by
FROM waiver w
CROSS JOIN run r
CROSS JOIN tensor t
WHERE w.until >= date('now') AND r.date <= w.until
  AND r.date GLOB '[0-9][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9]'
  AND w.until GLOB '[0-9][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9]'
  AND t.name = w.tensor
  AND (w.run IS NULL OR w.run = r.name)
  AND (w.experiment IS NULL OR w.experiment = r.experiment)
  AND (w.lineage IS NULL OR w.lineage = (SELECT m.lineage FROM lineage_member m WHERE m.run_id = r.id));
