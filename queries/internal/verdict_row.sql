-- tally summed per run (prompt_id 0) and per run and prompt, with the first comparison that fails, that
-- fails by its values (drift) and that fails by more than rounding (divergent), in forward order. A
-- first fail is one whose partner is missing, if there is any.
CREATE VIEW verdict_row AS
SELECT k.*
FROM kept_verdict_row k
UNION ALL
SELECT u.*
FROM unkept_verdict_row u;
