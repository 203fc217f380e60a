-- How two runs compare: what is kept of it, and diff_part of all others. Name both runs.
CREATE VIEW diff_row AS
SELECT k.* FROM kept_diff_row k
UNION ALL
SELECT p.* FROM diff_part p;
