#include "db/check.h"

#include <cstdint>
#include <utility>

namespace greta {

std::vector<std::string> check_database(SQLite::Database& db) {
  std::vector<std::string> problems;
  SQLite::Statement integrity(db, "PRAGMA integrity_check");
  while (integrity.executeStep()) {
    std::string line = integrity.getColumn(0).getString();
    if (line != "ok") problems.push_back("integrity: " + line);
  }
  SQLite::Statement keys(db, "PRAGMA foreign_key_check");
  while (keys.executeStep()) {
    problems.push_back("foreign key: a row of " + keys.getColumn(0).getString() +
                       " refers to a missing row of " + keys.getColumn(2).getString());
  }
  for (auto [column, table] : {std::pair{"run_id", "run"},
                               {"prompt_id", "prompt"},
                               {"phase_id", "phase"},
                               {"tensor_id", "tensor"},
                               {"name_id", "tensor_name"},
                               {"context_id", "row_context"},
                               {"source_id", "source"}}) {
    int64_t orphans =
        db.execAndGet(std::string("SELECT count(*) FROM trace_row WHERE ") + column +
                      " IS NOT NULL AND " + column + " NOT IN (SELECT id FROM " + table + ")")
            .getInt64();
    if (orphans > 0) {
      problems.push_back("trace_row: " + std::to_string(orphans) + " rows with a " + column +
                         " that " + table + " does not have");
    }
  }
  int64_t without_vector = db.execAndGet(
                                 "SELECT count(*) FROM trace_row WHERE vector_id IS NOT NULL"
                                 " AND vector_id NOT IN (SELECT id FROM sample) AND vector_id NOT "
                                 "IN (SELECT id FROM sketch)")
                               .getInt64();
  if (without_vector > 0) {
    problems.push_back("trace_row: " + std::to_string(without_vector) +
                       " rows without their sample or sketch");
  }
  int64_t hidden =
      db.execAndGet(
            "SELECT count(*) FROM trace_row x WHERE x.nth > 0 AND EXISTS (SELECT 1 FROM trace_row e"
            " WHERE e.run_id = x.run_id AND e.prompt_id = x.prompt_id AND e.side = x.side"
            " AND e.pos_id = x.pos_id AND e.layer = x.layer AND e.tensor_id = x.tensor_id"
            " AND e.nth < x.nth AND NOT e.crowded)")
          .getInt64();
  if (hidden > 0) {
    problems.push_back("trace_row: " + std::to_string(hidden) +
                       " rows at a place where another row says that it is the only one");
  }
  int64_t unplaced =
      db.execAndGet(
            "SELECT count(*) FROM (SELECT DISTINCT run_id, prompt_id, side, pos_id FROM trace_row"
            " EXCEPT SELECT run_id, prompt_id, side, pos_id FROM traced_position)")
          .getInt64();
  if (unplaced > 0) {
    problems.push_back("traced_position: " + std::to_string(unplaced) +
                       " positions of trace rows are not in it");
  }
  // An engine counts its rows in the transaction that writes them.
  SQLite::Statement lost(
      db,
      "SELECT r.name, s.rows - s.duplicates,"
      "  (SELECT count(*) FROM trace_row t WHERE t.run_id = r.id AND t.source_id = s.id) AS stored"
      " FROM source s JOIN run r ON r.id = s.run_id"
      " WHERE s.shape = 'engine' AND stored < s.rows - s.duplicates");
  while (lost.executeStep()) {
    problems.push_back("trace_row: " + lost.getColumn(2).getString() + " rows of run " +
                       lost.getColumn(0).getString() + ", whose engine wrote " +
                       lost.getColumn(1).getString());
  }
  return problems;
}

}  // namespace greta
