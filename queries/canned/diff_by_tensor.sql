-- How many rows of two runs are alike, trace point by trace point: of the prompts that both have.
-- :run_a a run
-- :run_b the run that it is compared with
SELECT d.tensor, sum(d.status = 'MATCH') AS match,
       sum(d.status = 'DRIFT' AND d.class = 'ROUNDING') AS rounding,
       sum(d.class IS 'EXPLAINED') AS explained, sum(d.class IS 'DIVERGENT') AS divergent,
       sum(d.class IS 'UNKNOWN' OR d.status IN ('AMBIGUOUS', 'CONFLICT')) AS unknown,
       sum(d.status = 'NONFINITE') AS nonfinite, sum(d.status = 'INCOMPARABLE') AS incomparable,
       sum(d.status = 'ONLY_A') AS only_a, sum(d.status = 'ONLY_B') AS only_b
FROM run_diff d
WHERE d.run_a = :run_a AND d.run_b = :run_b
  AND NOT EXISTS (
    SELECT 1 FROM run_pair p
    WHERE p.run_a = :run_a AND p.run_b = :run_b AND CASE WHEN p.prompt IS NULL THEN p.why_not IS NOT NULL ELSE p.prompt = d.prompt END)
GROUP BY d.tensor_id, d.tensor
ORDER BY (SELECT t.ord FROM tensor t WHERE t.id = d.tensor_id), d.tensor;
