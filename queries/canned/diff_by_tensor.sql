-- How many rows of two runs are alike, trace point by trace point: of the prompts that both have.
-- :run_a a run
-- :run_b the run that it is compared with
SELECT d.tensor, sum(d.status = 'MATCH') AS match,
       sum(d.status = 'DRIFT' AND d.counts_as = 'ROUNDING') AS rounding,
       sum(d.counts_as IS 'DIVERGENT') AS divergent, sum(d.class IS 'UNKNOWN' OR d.status IN ('AMBIGUOUS', 'CONFLICT')) AS unknown,
       sum(d.status = 'NONFINITE') AS nonfinite, sum(d.status = 'INCOMPARABLE') AS incomparable,
       sum(d.status = 'ONLY_A') AS only_a, sum(d.status = 'ONLY_B') AS only_b
FROM (
  SELECT e.*, CASE WHEN e.class IS NOT 'EXPLAINED' THEN e.class  -- as in verdict_count
    WHEN max(e.class = 'DIVERGENT') OVER (PARTITION BY e.prompt) THEN 'DIVERGENT' ELSE 'ROUNDING' END AS counts_as
  FROM run_diff e
  WHERE e.run_a = :run_a AND e.run_b = :run_b) d
WHERE NOT EXISTS (
  SELECT 1 FROM run_pair p
  WHERE p.run_a = :run_a AND p.run_b = :run_b AND CASE WHEN p.prompt IS NULL THEN p.why_not IS NOT NULL ELSE p.prompt = d.prompt END)
GROUP BY d.tensor_id, d.tensor
ORDER BY (SELECT t.ord FROM tensor t WHERE t.id = d.tensor_id), d.tensor;
