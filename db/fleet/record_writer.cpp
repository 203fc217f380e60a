#include "db/fleet/record_writer.h"

#include <algorithm>

#include "db/fleet/published.h"
#include "db/schema.h"

namespace greta {
namespace {

/// WITHOUT ROWID: their rows come in the order of their key.
constexpr const char* kByKey[] = {"trace_row",   "source_location", "trace_repeat", "readout",
                                  "plan",        "run_event",       "log_event",    "document_row",
                                  "report_pair", "noise_floor",     "kept_verdict", "kept_diff"};

/// What tells the content of run a from what it was when it was compared.
constexpr const char* kContentOfA =
    "(SELECT count(*) || ':' || ifnull(sum(s.rows), 0) FROM source s WHERE s.run_id = run_a_id)";

/// Columns of a table as a record holds them: a run of another push by its identity, and prompts of
/// that run by name.
std::string record_columns(SQLite::Database& db, const std::string& table) {
  std::string columns = columns_of(db, table);
  const auto replace = [&](const std::string& name, const std::string& by) {
    const size_t at = (", " + columns + ",").find(", " + name + ",");
    columns.replace(at, name.size(), by);
  };
  if (table == "kept_diff") {
    replace("run_a_id", identity_sql("run_a_id"));
    replace("prompt_id", "(SELECT name FROM prompt WHERE id = prompt_id)");
    replace("divergent_prompt_id", "(SELECT name FROM prompt WHERE id = divergent_prompt_id)");
    columns += std::string(", ") + kContentOfA;
  } else if (table == "source") {
    // one of a run that does not come along is this one's
    replace("run_id",
            "CASE WHEN run_id IN (SELECT value FROM json_each(?2)) THEN run_id ELSE ?1 END");
  }
  return columns;
}

}  // namespace

uint64_t number_of(const Sha256::Digest& digest) {
  uint64_t number = 0;
  for (int i = 0; i < 8; ++i) number = number << 8 | digest[static_cast<size_t>(i)];
  return number;
}

std::string record_select(SQLite::Database& db, const RunTable& table) {
  const std::string name = table.name;
  const bool by_key = std::find(std::begin(kByKey), std::end(kByKey), name) != std::end(kByKey);
  return "SELECT " + record_columns(db, name) + " FROM " + name + " WHERE " + table.condition +
         (by_key ? "" : " ORDER BY rowid");
}

}  // namespace greta
