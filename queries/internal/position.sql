-- Positions of a run's rows, by side, and what judging has to do there. compare: look at each row, since one
-- may lack its partner or not be finite. decode_only: count them, for only decode traced something there. Both
-- 0: rows of decode that each have a partner, for which that stands; and rows that nothing is compared with.
CREATE VIEW position AS
SELECT
  d.run_id AS run_id, d.prompt_id AS prompt_id, d.side AS side, d.pos_id AS pos_id,
  CASE
    WHEN d.pos_id >= 0 AND d.side = 0 THEN 1
    WHEN d.pos_id >= 0 AND d.side = 1 AND EXISTS (
      SELECT 1 FROM traced_position p
      WHERE p.run_id = d.run_id AND p.prompt_id = d.prompt_id AND p.side = 0 AND p.pos_id = d.pos_id) THEN
      -- both sides come in the order of their key, so that SQLite merges them and seeks nothing
      EXISTS (SELECT 1 FROM (
        SELECT y.layer, y.tensor_id, y.nth, y.token_id, y.logical_tok_idx FROM trace_row y
        WHERE y.run_id = d.run_id AND y.prompt_id = d.prompt_id AND y.side = 1 AND y.pos_id = d.pos_id AND y.stands
        EXCEPT
        SELECT x.layer, x.tensor_id, x.nth, x.token_id, x.logical_tok_idx FROM trace_row x
        WHERE x.run_id = d.run_id AND x.prompt_id = d.prompt_id AND x.side = 0 AND x.pos_id = d.pos_id AND x.stands
        ORDER BY 1, 2, 3 LIMIT 1))
    -- the words of the index trace_row_nonfinite, so that SQLite looks there and not through all rows
    ELSE EXISTS (
      SELECT 1 FROM trace_row x
      WHERE x.run_id = d.run_id AND x.prompt_id = d.prompt_id AND x.side = d.side AND x.pos_id = d.pos_id
        AND (x.nan > 0 OR x.inf > 0 OR x.flags & 1))
  END AS compare,
  d.side = 1 AND d.pos_id >= 0 AND NOT EXISTS (
    SELECT 1 FROM traced_position p
    WHERE p.run_id = d.run_id AND p.prompt_id = d.prompt_id AND p.side = 0 AND p.pos_id = d.pos_id)
  AND NOT EXISTS (
    SELECT 1 FROM trace_row x
    WHERE x.run_id = d.run_id AND x.prompt_id = d.prompt_id AND x.side = 1 AND x.pos_id = d.pos_id
      AND (x.nan > 0 OR x.inf > 0 OR x.flags & 1)) AS decode_only
FROM traced_position d;
