-- Where each commit first fails, oldest first: one row per run of an experiment.
-- :experiment () an experiment; all of them without
SELECT v.experiment, v.commit_sha, v.date, v.mode, v.verdict, v.first_fail, v.layer, v.tensor,
       v.prompt, v.root_cause, v.run
FROM run_verdict v
WHERE v.experiment = :experiment OR :experiment IS NULL
ORDER BY v.experiment, v.date, v.commit_sha, v.run_id;
