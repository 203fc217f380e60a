-- waived_row where nothing is waived: what reads only what is kept asks this.
CREATE VIEW no_waived_row AS
SELECT r.id AS run_id, r.id AS baseline_id, NULL AS class
FROM run r
WHERE 0;
