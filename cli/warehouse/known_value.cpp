#include "cli/warehouse/known_value.h"

#include <algorithm>

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
  Query of_layer(db,
                 "SELECT 1 FROM trace_row WHERE run_id = ?1 AND layer = ?2"
                 " UNION ALL SELECT 1 FROM report_pair WHERE run_id = ?1 AND layer = ?2 LIMIT 1");
  for (const Run& run : runs) {
    of_layer.bind(1, run.id).bind(2, *layer);
    const bool found = of_layer.step();
    of_layer.reset();
    if (found) return;
  }
  Query all(db,
            "SELECT min(layer), max(layer) FROM (SELECT layer FROM trace_row WHERE run_id = ?1"
            " UNION ALL SELECT layer FROM report_pair WHERE run_id = ?1)");
  std::optional<int64_t> least, most;
  for (const Run& run : runs) {
    all.bind(1, run.id);
    if (all.step() && !all.is_null(0)) {
      least = std::min(least.value_or(all.integer(0)), all.integer(0));
      most = std::max(most.value_or(all.integer(1)), all.integer(1));
    }
    all.reset();
  }
  if (!least) return;
  throw UsageError("no row of layer " + std::to_string(*layer) +
                   (runs.size() == 1 ? ": the run has layers " : ": these runs have layers ") +
                   std::to_string(*least) + " to " + std::to_string(*most));
}

}  // namespace greta
