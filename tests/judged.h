// Verdicts kept, as every program leaves a file that it wrote runs to.
#pragma once
#include <sqlite3.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "db/judge.h"
#include "tests/queries/warehouse.h"

namespace greta {

/// What there is, as far as SQLite tells whether that changed, by whomever.
inline std::pair<int64_t, int64_t> changes_of(SQLite::Database& db) {
  return {number_of(db, "PRAGMA data_version"), sqlite3_total_changes64(db.getHandle())};
}

/// Not again where nothing has changed: what judges is prepared each time.
inline void judge_all(Warehouse& w) {
  if (w.judged == changes_of(w.db)) return;
  std::vector<int64_t> ids;
  SQLite::Statement runs(w.db, "SELECT id FROM run ORDER BY id");
  while (runs.executeStep()) ids.push_back(runs.getColumn(0).getInt64());
  judge(w.db, ids, 1);
  w.judged = changes_of(w.db);
}

}  // namespace greta
