-- verdict_row as the gate reads it, of the runs of which it is kept: those that no waiver is in force for.
CREATE VIEW kept_gated_verdict_row AS
SELECT k.*
FROM kept_verdict_row k
WHERE NOT EXISTS (SELECT 1 FROM run_waiver w WHERE w.run_id = k.run_id);
