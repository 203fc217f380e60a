-- comparison with its status, decided in the order of the conditions, and how far the values are
-- apart. Samples and sketches decide only where hashes cannot. What a condition
-- decides is looked up in a table of all that it can be, so that it is worked out once a row, however
-- often a view names it.
CREATE VIEW comparison_status AS
SELECT
  j.*,
  st.name AS status,
  CASE WHEN j.alone AND j.report_source_id IS NULL THEN 0 ELSE st.compared END AS compared, st.fails AS fails, st.blamed AS blamed,
  o.name AS scope,
  CASE
    WHEN j.by_hash THEN CASE WHEN j.whole_hash THEN j.x_n ELSE min(j.x_n, 256) END
    ELSE coalesce(j.sample_n, j.sketch_n)
  END AS compared_n,
  m.name AS measure, m.low AS measure_low, m.high AS measure_high,
  CASE
    WHEN m.name = 'hash' THEN 0.0
    WHEN m.name = 'exact' THEN j.exact_distance
    WHEN m.name IS NOT NULL THEN max(j.least_distance, CASE WHEN j.sketch_equal THEN 0.0 ELSE j.sketch_distance END)
  END AS rel_l2,
  -- of the coarser arithmetic of the two; what was measured of a model only makes it less. Whether anything
  -- was is asked once, not of each row.
  CASE
    WHEN j.alone THEN NULL
    WHEN j.run_id = j.other_run_id THEN
      (SELECT min(t.rel_l2, ifnull(CASE WHEN j.steady AND EXISTS (SELECT 1 FROM noise_floor) THEN (SELECT min(n.rel_l2) FROM run_noise n
           WHERE n.run_id = j.run_id AND n.tensor_id = j.tensor_id AND n.layer = j.layer) END, 1e300))
       FROM run_tolerance t WHERE t.run_id = j.run_id AND t.tensor_id = j.tensor_id)
    ELSE
      (SELECT max(min(t.rel_l2, ifnull(CASE WHEN j.steady AND EXISTS (SELECT 1 FROM noise_floor) THEN (SELECT min(n.rel_l2) FROM run_noise n
           WHERE n.run_id = t.run_id AND n.tensor_id = j.tensor_id AND n.layer = j.layer) END, 1e300)))
       FROM run_tolerance t
       WHERE t.run_id IN (j.run_id, j.other_run_id) AND t.tensor_id = j.tensor_id)
  END AS tolerance
FROM comparison j
CROSS JOIN status st
LEFT JOIN scope o ON o.name =
  CASE
    WHEN j.whole_tensor AND NOT j.same_run THEN 'tensor'
    WHEN j.by_hash THEN CASE WHEN j.whole_hash THEN 'full' ELSE 'prefix' END
    WHEN j.sample_n IS NOT NULL THEN 'sample'
    WHEN j.sketch_derived THEN 'sample'
    WHEN j.sketch_n IS NOT NULL THEN 'full'
  END
-- Equal samples say nothing about the size of a difference that only the hashes saw.
LEFT JOIN measure m ON m.name =
  CASE
    WHEN j.other_token OR j.other_length OR j.nonfinite THEN NULL
    -- what the sketches have is equal: the difference is elsewhere
    WHEN j.other_statistics AND j.sketch_equal THEN NULL
    WHEN j.by_hash AND j.x_hash = j.y_hash AND j.sample_equal IS NOT 0 AND j.least_distance = 0 THEN 'hash'
    -- what sketches of all values, or what the rows say of them, refute was not measured of these rows: they err by far less
    WHEN j.by_hash AND j.exact_distance IS NOT NULL AND j.least_distance <= 1.01 * j.exact_distance + 2e-6
      AND (j.sketch_derived OR j.sketch_distance <= 2 * j.exact_distance + 2e-6) IS NOT 0 THEN 'exact'
    WHEN j.sketch_n IS NOT NULL AND NOT (j.sketch_derived AND j.by_hash AND j.sample_equal IS 1) THEN
      CASE WHEN j.sketch_derived THEN 'sample' ELSE 'sketch' END
  END
WHERE st.name =
  CASE
    WHEN j.report_source_id IS NOT NULL THEN j.report_status
    WHEN j.alone THEN
      CASE
        WHEN NOT j.same_run THEN 'ALONE'
        WHEN j.nonfinite THEN 'NONFINITE'
        WHEN j.side = 0 THEN
          CASE WHEN j.phase_id = (SELECT id FROM phase WHERE name = 'prefill_last') THEN 'MISSING' ELSE 'PREFILL_ONLY' END
        WHEN j.demanded THEN 'MISSING'
        ELSE 'DECODE_ONLY'
      END
    WHEN j.ambiguous THEN 'AMBIGUOUS'
    WHEN CASE WHEN j.contradicted THEN CASE WHEN j.x_hash = j.y_hash THEN 1 ELSE j.sketch_equal END END THEN 'CONFLICT'
    -- an equal sample of all that the hashes cover
    WHEN j.sample_equal AND j.x_hash <> j.y_hash AND j.by_hash
      AND j.sample_n >= CASE WHEN j.whole_hash THEN j.x_n ELSE min(j.x_n, 256) END THEN 'CONFLICT'
    WHEN j.nonfinite THEN 'NONFINITE'
    WHEN j.other_token THEN 'INCOMPARABLE'
    WHEN j.by_hash THEN
      -- a hash of part of a row is not all that is said of it
      CASE WHEN j.x_hash = j.y_hash AND j.sample_equal IS NOT 0 AND j.least_distance = 0
        THEN CASE WHEN j.order_free THEN CASE WHEN j.other_statistics THEN 'DRIFT' ELSE 'INCOMPARABLE' END ELSE 'MATCH' END
        ELSE 'DRIFT' END
    WHEN j.sample_equal = 0 OR j.sketch_equal = 0 OR j.other_statistics THEN 'DRIFT'
    -- what is equal is not all of rows that are of other lengths, or of other hashes, and rows that
    -- differ can have equal sketches
    WHEN j.other_length OR j.other_hash THEN 'INCOMPARABLE'
    ELSE CASE WHEN j.sample_equal THEN CASE WHEN j.least_distance = 0 THEN 'MATCH' ELSE 'DRIFT' END ELSE 'INCOMPARABLE' END
  END;
