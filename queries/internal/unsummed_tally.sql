-- tally of the runs whose verdict is not kept.
CREATE VIEW unsummed_tally AS
SELECT t.*
FROM tally t
WHERE NOT EXISTS (SELECT 1 FROM kept_verdict k WHERE k.run_id = t.run_id);
