-- The row that stands for all rows of one side at one place, and whether these differ: the columns stands,
-- stands_in_phase, ambiguous and ambiguous_in_phase of trace_row. Rows of one token are compared as one where
-- prefill meets decode, rows of one phase where two runs meet; where the position is unknown, of one step. The
-- first by phase, step, name and nth stands, but one that is not finite before others. Name the place.
CREATE VIEW standing AS
SELECT
  t.run_id AS run_id, t.prompt_id AS prompt_id, t.side AS side, t.pos_id AS pos_id, t.layer AS layer,
  t.tensor_id AS tensor_id, t.nth AS nth, t.step AS step,
  NOT EXISTS (
    SELECT 1 FROM trace_row e
    WHERE e.run_id = t.run_id AND e.prompt_id = t.prompt_id AND e.side = t.side AND e.pos_id = t.pos_id AND e.layer = t.layer
      AND e.tensor_id = t.tensor_id AND (e.pos_id >= 0 OR e.step = t.step)
      AND e.token_id IS t.token_id AND e.logical_tok_idx IS t.logical_tok_idx
      AND ((e.nan > 0 OR e.inf > 0 OR e.flags & 1) IS NOT TRUE, e.phase_id, e.step, e.name_id, e.nth)
        < ((t.nan > 0 OR t.inf > 0 OR t.flags & 1) IS NOT TRUE, t.phase_id, t.step, t.name_id, t.nth)) AS stands,
  NOT EXISTS (
    SELECT 1 FROM trace_row e
    WHERE e.run_id = t.run_id AND e.prompt_id = t.prompt_id AND e.side = t.side AND e.pos_id = t.pos_id AND e.layer = t.layer
      AND e.tensor_id = t.tensor_id AND (e.pos_id >= 0 OR e.step = t.step) AND e.phase_id = t.phase_id
      AND ((e.nan > 0 OR e.inf > 0 OR e.flags & 1) IS NOT TRUE, e.step, e.name_id, e.nth)
        < ((t.nan > 0 OR t.inf > 0 OR t.flags & 1) IS NOT TRUE, t.step, t.name_id, t.nth)) AS stands_in_phase,
  EXISTS (
    SELECT 1 FROM trace_row e
    WHERE e.run_id = t.run_id AND e.prompt_id = t.prompt_id AND e.side = t.side AND e.pos_id = t.pos_id AND e.layer = t.layer
      AND e.tensor_id = t.tensor_id AND (e.pos_id >= 0 OR e.step = t.step)
      AND e.token_id IS t.token_id AND e.logical_tok_idx IS t.logical_tok_idx
      AND ((e.n, e.hash, e.min, e.max, e.mean, e.abs_sum, e.nan, e.inf, e.nz_count, e.flags & 17)
          IS NOT (t.n, t.hash, t.min, t.max, t.mean, t.abs_sum, t.nan, t.inf, t.nz_count, t.flags & 17)
        OR (SELECT s.data FROM sample s WHERE s.id = e.sample_id) IS NOT (SELECT s.data FROM sample s WHERE s.id = t.sample_id)
        -- without a hash the sketch is what a row is known by
        OR t.hash IS NULL AND e.sketch_id IS NOT t.sketch_id)) AS ambiguous,
  EXISTS (
    SELECT 1 FROM trace_row e
    WHERE e.run_id = t.run_id AND e.prompt_id = t.prompt_id AND e.side = t.side AND e.pos_id = t.pos_id AND e.layer = t.layer
      AND e.tensor_id = t.tensor_id AND (e.pos_id >= 0 OR e.step = t.step) AND e.phase_id = t.phase_id
      AND ((e.token_id, e.n, e.hash, e.min, e.max, e.mean, e.abs_sum, e.nan, e.inf, e.nz_count, e.flags & 17)
          IS NOT (t.token_id, t.n, t.hash, t.min, t.max, t.mean, t.abs_sum, t.nan, t.inf, t.nz_count, t.flags & 17)
        OR (SELECT s.data FROM sample s WHERE s.id = e.sample_id) IS NOT (SELECT s.data FROM sample s WHERE s.id = t.sample_id)
        OR t.hash IS NULL AND e.sketch_id IS NOT t.sketch_id)) AS ambiguous_in_phase
FROM trace_row t;
