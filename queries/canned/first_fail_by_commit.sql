-- Where each commit first fails beyond rounding (numeric_...), and bit by bit, oldest first: one row per run of an experiment.
-- :experiment () an experiment; all of them without
SELECT v.experiment, v.commit_sha, v.date, v.mode, v.numeric_verdict, v.numeric_first_fail, v.numeric_layer,
       v.numeric_tensor, v.numeric_prompt, v.verdict AS strict_verdict, v.first_fail AS strict_first_fail,
       v.layer AS strict_layer, v.tensor AS strict_tensor, v.prompt AS strict_prompt, v.run
FROM run_verdict v
JOIN run r ON r.id = v.run_id
WHERE v.experiment = :experiment OR :experiment IS NULL
ORDER BY v.experiment, v.date, r.started_at, length(v.run), v.run;
