#include "cli/warehouse/known_value.h"

#include "cli/warehouse/sql_query.h"
#include "common/exit_status.h"
#include "common/near_words.h"

namespace greta {
namespace {

struct Names {
  const char* noun;
  const char* sql;   ///< those that there are
  const char* list;  ///< how to list them
};

/// In the order of NameOf.
constexpr Names kNames[] = {
    {"experiment", "SELECT DISTINCT experiment FROM run", "`greta-db runs`"},
    {"mode",
     "SELECT 'as_designed' UNION SELECT 'kv_aligned' UNION SELECT 'batch_invariant'"
     " UNION SELECT mode FROM run WHERE mode IS NOT NULL",
     ""},
    {"tensor", "SELECT name FROM tensor_name UNION SELECT name FROM tensor",
     "`greta-db query \"SELECT name FROM tensor_name\"`"},
    {"phase", "SELECT name FROM phase", ""},
    {"prompt", "SELECT DISTINCT name FROM prompt",
     "`greta-db query \"SELECT DISTINCT name FROM prompt\"`"},
    {"cause",
     "SELECT name FROM cause UNION SELECT cause FROM tensor_name"
     " UNION SELECT cause FROM report_pair WHERE cause IS NOT NULL",
     "`greta-db query \"SELECT name FROM cause\"`"},
};

}  // namespace

void check_known(SQLite::Database& db, NameOf what, const std::string& name) {
  if (name.empty()) return;
  const Names& of = kNames[static_cast<size_t>(what)];
  std::vector<std::string> names;
  for (Query query(db, of.sql); query.step();) {
    names.push_back(query.text(0));
    if (names.back() == name) return;
  }
  throw unknown_name(of.noun, name, names, of.list);
}

void check_layer(SQLite::Database& db, const std::vector<Run>& runs, std::optional<int64_t> layer) {
  if (!layer) return;
  std::string ids;
  for (const Run& run : runs) ids += (ids.empty() ? "[" : ",") + std::to_string(run.id);
  const std::string of_runs =
      " FROM (SELECT run_id, layer FROM trace_row UNION ALL SELECT run_id, layer FROM report_pair)"
      " WHERE run_id IN (SELECT value FROM json_each(?1))";
  Query found(db, "SELECT 1" + of_runs + " AND layer = ?2 LIMIT 1");
  if (runs.empty() || found.bind(1, ids + "]").bind(2, *layer).step()) return;
  Query range(db, "SELECT min(layer), max(layer)" + of_runs);
  range.bind(1, ids + "]").step();
  if (range.is_null(0)) return;
  throw UsageError("no row of layer " + std::to_string(*layer) +
                   (runs.size() == 1 ? ": the run has layers " : ": these runs have layers ") +
                   std::to_string(range.integer(0)) + " to " + std::to_string(range.integer(1)));
}

}  // namespace greta
