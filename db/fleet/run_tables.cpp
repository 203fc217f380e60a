#include "db/fleet/run_tables.h"

namespace greta {
namespace {

// What a file of no source counts for follows view run_rejection.
constexpr RunTable kRunTables[] = {
    {"run", "id IN (SELECT value FROM json_each(?2))"},
    {"prompt", "run_id IN (SELECT value FROM json_each(?2))"},
    {"source", "id IN (SELECT value FROM json_each(?3))"},
    {"source_location", "source_id IN (SELECT value FROM json_each(?3))"},
    {"row_context",
     "id IN (SELECT x.context_id FROM trace_row x WHERE x.run_id = ?1 AND x.context_id IS NOT "
     "NULL)"},
    // one of its rows, so that there is one wherever somebody asks whether there are any
    {"trace_row",
     "run_id = ?1 AND (flags & 8) = CASE WHEN EXISTS (SELECT 1 FROM trace_row e WHERE e.run_id = ?1"
     " AND (e.flags & 8) = 0) THEN 0 ELSE 8 END LIMIT 1"},
    {"trace_repeat", "run_id = ?1"},
    {"readout", "run_id = ?1"},
    {"plan", "run_id IN (SELECT value FROM json_each(?2))"},
    {"attribute", "run_id IN (SELECT value FROM json_each(?2))"},
    {"run_event", "run_id IN (SELECT value FROM json_each(?2))"},
    {"run_metric", "run_id IN (SELECT value FROM json_each(?2))"},
    {"log_event", "run_id IN (SELECT value FROM json_each(?2))"},
    {"document_row", "source_id IN (SELECT value FROM json_each(?3))"},
    {"report", "run_id IN (SELECT value FROM json_each(?2))"},
    {"report_pair", "run_id IN (SELECT value FROM json_each(?2))"},
    {"report_claim", "run_id IN (SELECT value FROM json_each(?2))"},
    {"ingest_error",
     "source_id IN (SELECT value FROM json_each(?3)) OR source_id IS NULL AND ("
     " EXISTS (SELECT 1 FROM run r WHERE r.id = ?1 AND (ingest_error.about = r.name"
     "   OR r.name > ingest_error.about || '/' AND r.name < ingest_error.about || '0'))"
     " OR line = 0 AND file IN (SELECT substr(l.path, 1, instr(l.path, '!') - 1)"
     "   FROM source_location l WHERE instr(l.path, '!') > 0"
     "   AND l.source_id IN (SELECT value FROM json_each(?3))))"},
    {"noise_floor",
     "model_sha256 IN (SELECT a.value FROM attribute a WHERE a.run_id = ?1"
     " AND a.dim IN ('model_root', 'model_sha256'))"},
    {"kept_tally", "run_id = ?1"},
    {"kept_verdict", "run_id = ?1"},
    {"kept_diff", "run_b_id = ?1"},
};

constexpr const char* kRuleTables[] = {"phase", "cause", "tensor", "tensor_name", "tolerance"};

}  // namespace

std::span<const RunTable> run_tables() { return kRunTables; }

std::span<const char* const> rule_tables() { return kRuleTables; }

}  // namespace greta
