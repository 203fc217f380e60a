-- First failure of each commit, and its first pair that is not bitwise equal (strict_...), oldest first: one row per run of an experiment.
-- :experiment () an experiment; all of them without
SELECT v.experiment, v.commit_sha, v.date, v.mode, v.verdict, v.first_fail, v.layer, v.tensor, v.prompt,
       v.strict_verdict, v.strict_first_fail, v.strict_layer, v.strict_tensor, v.strict_prompt, v.run
FROM run_verdict v
JOIN run r ON r.id = v.run_id
WHERE v.experiment = :experiment OR :experiment IS NULL
ORDER BY v.experiment, v.date, ifnull(r.started_at, '~'), r.id;
