-- One row per two runs: do they compute the same? Name both: WHERE run_a = '...' AND run_b = '...'.
CREATE VIEW diff_verdict AS
SELECT
  v.run_a AS run_a,                                    -- run.name
  v.run_b AS run_b,                                    -- run.name
  CASE
    WHEN v.compared = 0 THEN 'NO_EVIDENCE'
    WHEN v.nonfinite + v.divergent + v.only_a + v.only_b + v.rounding + v.unknown > 0 THEN 'FAIL'
    WHEN v.incomparable > 0 THEN 'INCOMPARABLE'
    ELSE 'PASS'
  END AS verdict,                                      -- FAIL, NO_EVIDENCE, INCOMPARABLE, PASS
  CASE
    WHEN v.compared = 0 THEN 'NO_EVIDENCE'
    WHEN v.nonfinite + v.divergent + v.only_a + v.only_b > 0 THEN 'FAIL'
    WHEN v.unknown + v.incomparable - v.alike > 0 THEN 'INCOMPARABLE'
    ELSE 'PASS'
  END AS numeric_verdict,                              -- the same, ROUNDING read as MATCH and UNKNOWN as INCOMPARABLE
  v.compared AS compared,                              -- rows of both that something decides
  v.match AS match,                                    -- bitwise equal
  v.rounding AS rounding,                              -- DRIFT within tolerance
  v.divergent AS divergent,                            -- DRIFT beyond it
  v.unknown AS unknown,                                -- DRIFT with nothing to measure it by; AMBIGUOUS, CONFLICT
  v.nonfinite AS nonfinite,                            -- NaN or inf on either side
  v.incomparable AS incomparable,                      -- nothing decides, or another token
  v.only_a AS only_a,                                  -- rows that run_b does not have
  v.only_b AS only_b,                                  -- rows that run_a does not have
  v.run_a_id AS run_a_id,                              -- run.id
  v.run_b_id AS run_b_id                               -- run.id
FROM (
  SELECT
    c.run_a AS run_a, c.run_b AS run_b, c.run_a_id AS run_a_id, c.run_b_id AS run_b_id,
    sum(CASE WHEN c.status IN ('INCOMPARABLE', 'ONLY_A', 'ONLY_B', '') THEN 0 ELSE c.count END) OVER both AS compared,
    sum(CASE WHEN c.status = 'MATCH' THEN c.count ELSE 0 END) OVER both AS match,
    sum(CASE WHEN c.status = 'DRIFT' AND c.class = 'ROUNDING' THEN c.count ELSE 0 END) OVER both AS rounding,
    sum(CASE WHEN c.class = 'DIVERGENT' THEN c.count ELSE 0 END) OVER both AS divergent,
    sum(CASE WHEN c.class = 'UNKNOWN' OR c.status IN ('AMBIGUOUS', 'CONFLICT') THEN c.count ELSE 0 END) OVER both AS unknown,
    sum(CASE WHEN c.status = 'NONFINITE' THEN c.count ELSE 0 END) OVER both AS nonfinite,
    sum(CASE WHEN c.status = 'INCOMPARABLE' THEN c.count ELSE 0 END) OVER both AS incomparable,
    sum(CASE WHEN c.status = 'INCOMPARABLE' AND c.class = 'ROUNDING' THEN c.count ELSE 0 END) OVER both AS alike,
    sum(CASE WHEN c.status = 'ONLY_A' THEN c.count ELSE 0 END) OVER both AS only_a,
    sum(CASE WHEN c.status = 'ONLY_B' THEN c.count ELSE 0 END) OVER both AS only_b,
    row_number() OVER both AS nth
  FROM diff_count c
  WINDOW both AS (PARTITION BY c.run_a, c.run_b, c.run_a_id, c.run_b_id)
) v
WHERE v.nth = 1;
