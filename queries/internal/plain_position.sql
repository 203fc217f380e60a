-- Positions whose rows are compared with nothing: those that only decode traced, those that nobody
-- knows, and those of neither side, as long as all of their values are finite: the words of index trace_row_nonfinite,
-- so that SQLite looks there and not through all rows.
CREATE VIEW plain_position AS
SELECT d.run_id AS run_id, d.prompt_id AS prompt_id, d.side AS side, d.pos_id AS pos_id
FROM traced_position d
WHERE CASE
  WHEN d.pos_id >= 0 AND d.side = 0 THEN 0
  WHEN d.pos_id >= 0 AND d.side = 1 AND EXISTS (
    SELECT 1 FROM traced_position p
    WHERE p.run_id = d.run_id AND p.prompt_id = d.prompt_id AND p.side = 0 AND p.pos_id = d.pos_id) THEN 0
  ELSE NOT EXISTS (
    SELECT 1 FROM trace_row x
    WHERE x.run_id = d.run_id AND x.prompt_id = d.prompt_id AND x.side = d.side AND x.pos_id = d.pos_id
      AND (x.nan > 0 OR x.inf > 0 OR x.flags & 1))
END;
