-- One row per run and waiver that is in force for it and waives something of it: the gate leaves these pairs
-- out, and no verdict does.
CREATE VIEW waived AS
SELECT
  f.run AS run,                                        -- run.name
  f.waiver_id AS waiver_id,                            -- waiver.id
  f.tensor AS tensor,                                  -- canonical
  f.layer AS layer,                                    -- NULL: all
  f.pairs AS pairs,                                    -- pairs of prefill and decode that differ there, each within or beyond rounding
  f.divergent AS divergent,                            -- of those, beyond it
  f.until AS until,                                    -- YYYY-MM-DD: its last day, and of the runs that it is for
  f.reason AS reason,                                  -- why it is waived
  f.created_by AS created_by,                          -- who waived it
  f.run_id AS run_id                                   -- run.id
FROM (
  SELECT
    w.*,
    (SELECT count(*) FROM comparison_graded s
     WHERE s.run_id = w.run_id AND s.other_run_id = w.run_id
       AND s.key_tensor_id = w.tensor_id AND (w.layer IS NULL OR s.key_layer = w.layer) AND s.status = 'DRIFT') AS pairs,
    (SELECT count(*) FROM comparison_graded s
     WHERE s.run_id = w.run_id AND s.other_run_id = w.run_id
       AND s.key_tensor_id = w.tensor_id AND (w.layer IS NULL OR s.key_layer = w.layer) AND s.class = 'DIVERGENT'
       AND s.status = 'DRIFT') AS divergent
  FROM run_waiver w
) f
WHERE f.pairs > 0;
