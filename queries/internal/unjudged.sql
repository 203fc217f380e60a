-- Runs without a kept verdict, or whose waivers have run out since. Why rows are not named here: see `verdict`.
CREATE VIEW unjudged AS
SELECT r.id AS run_id, r.name AS run
FROM run r
WHERE NOT EXISTS (SELECT 1 FROM verdict v WHERE v.run_id = r.id AND v.level = 'run')
  OR EXISTS (SELECT 1 FROM verdict v WHERE v.run_id = r.id AND v.level = 'gate' AND v.until < date('now'));
