-- comparison with its status, decided in the order of the conditions; with its distance and what that comes from; and
-- with the distance up to which it is rounding by itself. A CASE gives a name, which is then looked up in its
-- dictionary: so SQLite decides once per row, however many columns follow from it.
CREATE VIEW comparison_measured AS
SELECT
  j.*,
  st.name AS status, CASE WHEN j.alone AND j.report_source_id IS NULL THEN 0 ELSE st.compared END AS compared,
  st.fails AS fails, st.blamed AS blamed, m.name AS measure, m.low AS measure_low, m.high AS measure_high,
  CASE m.name
    WHEN 'hash' THEN 0.0
    WHEN 'exact' THEN j.exact_rel_l2
    ELSE CASE WHEN m.name IS NOT NULL THEN j.sketch_distance END
  END AS rel_l2,
  -- up to which a distance is rounding: of the coarser arithmetic of the two; what was measured of a model with one type
  -- of the KV cache (noise_floor.dtype ends in it) makes it less: four times what 99.9 % of clean pairs have
  CASE WHEN NOT j.alone THEN (
    -- none where one of the two has none
    SELECT CASE WHEN count(t.rel_l2) = count(*) THEN max(min(t.rel_l2, ifnull(CASE WHEN j.steady AND EXISTS (SELECT 1 FROM noise_floor) THEN (
        SELECT min(4 * f.rel_l2)
        FROM run r
        JOIN noise_floor f ON f.dtype = r.dtype || ifnull((
          SELECT '/kv_cache=' || a.value FROM attribute a WHERE a.run_id = r.id AND a.dim = 'kv_cache' AND a.value <> 'f32'), '')
        WHERE r.id = t.run_id AND f.tensor_id = j.key_tensor_id AND f.layer = j.key_layer
          AND EXISTS (SELECT 1 FROM attribute a WHERE a.run_id = r.id AND a.dim IN ('model_root', 'model_sha256') AND a.value = f.model_sha256)
          AND EXISTS (SELECT 1 FROM attribute a WHERE a.run_id = r.id AND a.dim = 'backend' AND a.value = f.backend)) END, 1e300))) END
    FROM run_tolerance t
    WHERE t.run_id IN (j.run_id, j.other_run_id) AND t.tensor_id = j.key_tensor_id) END AS tolerance
FROM comparison j
CROSS JOIN status st
LEFT JOIN measure m ON m.name = CASE
    WHEN st.name = 'MATCH' AND j.hash_equal THEN 'hash'
    WHEN CASE st.name WHEN 'DRIFT' THEN j.other_length ELSE j.other_token OR j.other_length OR j.nonfinite END THEN NULL
    ELSE coalesce(
      CASE j.hash_equal
        WHEN 1 THEN CASE WHEN j.sample_equal IS NOT 0 AND j.other_statistics IS NOT 1 THEN 'hash' END
        -- not where the sketches of all values refute it: they err by far less
        WHEN 0 THEN CASE WHEN j.exact_rel_l2 IS NOT NULL THEN CASE
          WHEN j.sketch_derived OR ifnull(j.sketch_distance <= 2 * j.exact_rel_l2 + 2e-6, 1) THEN 'exact' END END
      END,
      -- equal samples say nothing about the size of a difference that only the hashes saw, nor do equal
      -- sketches of other statistics: the difference is elsewhere
      CASE WHEN j.sketch_n IS NOT NULL AND NOT (j.sketch_derived AND j.hash_equal IS NOT NULL AND j.sample_equal IS 1)
        AND CASE WHEN j.other_statistics THEN j.sketch_distance = 0 END IS NOT 1 THEN CASE WHEN j.sketch_derived THEN 'sample' ELSE 'sketch' END END)
  END
WHERE st.name = CASE
    WHEN j.settled THEN 'MATCH'
    WHEN j.report_source_id IS NOT NULL THEN j.report_status
    WHEN j.alone THEN CASE
        WHEN NOT j.same_run THEN 'ALONE'
        WHEN j.nonfinite THEN 'NONFINITE'
        WHEN j.side = 0 THEN
          CASE WHEN j.phase_id = (SELECT id FROM phase WHERE name = 'prefill_last') THEN 'MISSING' ELSE 'PREFILL_ONLY' END
        WHEN j.demanded THEN 'MISSING'
        ELSE 'DECODE_ONLY'
      END
    WHEN j.ambiguous THEN 'AMBIGUOUS'
    ELSE CASE j.hash_equal
      WHEN 0 THEN CASE
          -- of all that the hashes cover, and nothing else differs
          WHEN j.sample_equal AND j.sample_n >= CASE WHEN j.whole_hash THEN j.x_n ELSE min(j.x_n, 256) END
            AND j.other_statistics IS NOT 1 AND ifnull(j.sketch_distance, 0) = 0 THEN 'CONFLICT'
          -- equal sketches of all values, and samples that differ by more than a sketch can miss
          WHEN j.sample_equal = 0 AND j.sketch_whole AND NOT j.sketch_derived AND j.sketch_distance = 0
            AND j.sample_distance > 1e-5 * j.norm THEN 'CONFLICT'
          -- two values are further apart than the farthest are said to be, and no sketch of all of them measures it
          WHEN j.sample_equal = 0 AND j.max_abs IS NOT NULL AND j.sketch_derived IS NOT 0 AND j.sample_distance > 1.01 * j.max_abs + 5.1e-5 THEN 'CONFLICT'
          WHEN j.nonfinite THEN 'NONFINITE'
          WHEN j.other_token THEN 'INCOMPARABLE'
          ELSE 'DRIFT'
        END
      WHEN 1 THEN CASE
          WHEN (j.other_statistics OR j.sample_equal = 0 AND j.sample_distance > 5.1e-5) AND (j.whole_hash OR j.x_n <= 256) THEN 'CONFLICT'
          WHEN j.nonfinite THEN 'NONFINITE'
          WHEN j.other_token THEN 'INCOMPARABLE'
          -- a hash of part of a row is not all that is said of it, and one that knows no order proves nothing
          WHEN j.sample_equal = 0 AND j.sample_distance > 5.1e-5 OR j.other_statistics THEN 'DRIFT'
          WHEN j.order_free THEN 'INCOMPARABLE'
          ELSE 'MATCH'
        END
      ELSE CASE  -- no hashes compare
          WHEN CASE WHEN j.same_hash THEN j.whole_hash OR j.x_n <= 256 ELSE j.sketch_whole AND j.sketch_distance = 0 END
            AND j.other_statistics THEN 'CONFLICT'
          WHEN j.sample_equal = 0 AND j.sketch_whole AND NOT j.sketch_derived AND j.sketch_distance = 0
            AND j.sample_distance > 1e-5 * j.norm THEN 'CONFLICT'
          WHEN j.nonfinite THEN 'NONFINITE'
          WHEN j.other_token THEN 'INCOMPARABLE'
          WHEN j.sample_equal = 0 OR j.sketch_distance > 0 OR j.whole_tensor AND j.other_statistics THEN 'DRIFT'
          -- equal values are not all of rows that are of other lengths, or of other hashes
          WHEN j.other_length OR j.other_hash THEN 'INCOMPARABLE'
          WHEN j.sample_equal THEN CASE WHEN j.other_statistics THEN 'DRIFT' ELSE 'MATCH' END
          ELSE 'INCOMPARABLE'
        END
      END
  END
AND CASE WHEN j.report_source_id IS NULL THEN 1 ELSE
  j.report_source_id = (SELECT e.report_source_id FROM run_state e WHERE e.run_id = j.run_id) END;
