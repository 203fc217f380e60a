-- diff_part of the runs of which it is kept.
CREATE VIEW kept_diff_row AS
SELECT a.name AS run_a, b.name AS run_b, k.*
FROM kept_diff k
JOIN run a ON a.id = k.run_a_id
JOIN run b ON b.id = k.run_b_id;
