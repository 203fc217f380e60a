-- pair_joined with its status, decided in the order of the conditions, and how far the values are
-- apart. Equal sketches of equal length decide only where hash and sample cannot.
CREATE VIEW pair_status AS
SELECT
  j.*,
  CASE
    WHEN j.ambiguous THEN 'AMBIGUOUS'
    WHEN j.nonfinite THEN 'NONFINITE'
    WHEN j.by_hash THEN
      CASE WHEN j.hash_equal AND j.sample_equal IS NOT 0 THEN 'MATCH' ELSE 'DRIFT' END
    WHEN j.sample_equal IS NOT NULL THEN CASE WHEN j.sample_equal THEN 'MATCH' ELSE 'DRIFT' END
    ELSE coalesce(
      (SELECT CASE WHEN v.diff_sq = 0 AND v.sum_sq_equal THEN 'MATCH' ELSE 'DRIFT' END
       FROM sketch_pair v WHERE v.a = j.prefill_vector AND v.b = j.decode_vector),
      'INCOMPARABLE')
  END AS status,
  CASE
    WHEN j.by_hash THEN CASE j.hash_algo WHEN 'greta-1' THEN 'full' ELSE 'prefix' END
    WHEN j.sample_equal IS NOT NULL THEN 'sample'
    ELSE (SELECT CASE WHEN v.derived THEN 'sample' ELSE 'full' END
          FROM sketch_pair v WHERE v.a = j.prefill_vector AND v.b = j.decode_vector)
  END AS scope,
  CASE
    WHEN j.by_hash THEN CASE j.hash_algo WHEN 'greta-1' THEN j.prefill_n ELSE min(j.prefill_n, 256) END
    WHEN j.sample_equal IS NOT NULL THEN (SELECT n FROM sample WHERE id = j.prefill_vector)
    ELSE (SELECT v.n FROM sketch_pair v WHERE v.a = j.prefill_vector AND v.b = j.decode_vector)
  END AS compared_n,
  -- Estimated ||a-b|| over the larger norm, so that a row of zeros against anything else is 1. Equal
  -- samples say nothing about the size of a difference that only the hashes saw.
  CASE WHEN j.by_hash AND j.hash_equal AND j.sample_equal IS NOT 0 THEN 0.0 ELSE
    (SELECT CASE WHEN v.diff_sq = 0 THEN 0.0 ELSE sqrt(v.diff_sq / v.norm_sq) END
     FROM sketch_pair v WHERE v.a = j.prefill_vector AND v.b = j.decode_vector
       AND NOT (v.derived AND j.by_hash AND j.sample_equal IS 1))
  END AS rel_l2,
  (SELECT rel_l2 FROM tolerance
   WHERE (tensor_id = j.tensor_id OR tensor_id IS NULL) AND (dtype = j.dtype OR dtype IS NULL)
   ORDER BY tensor_id IS NULL, dtype IS NULL LIMIT 1) AS tolerance
FROM pair_joined j;
