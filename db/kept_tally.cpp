#include "db/kept_tally.h"

#include <string>

#include "db/schema.h"

namespace greta {
TallyKeeper::TallyKeeper(SQLite::Database& db)
    : keep_(db,
            "INSERT INTO kept_tally(run_id, prompt_id, status, class, scope, cause, count, "
            "claimed, elsewhere,"
            " forward_layer, layer, tensor_id, name_id, pos_id, token_id, report_line)"
            " SELECT run_id, prompt_id, status, class, scope, cause, count, claimed, elsewhere,"
            " forward_layer, layer, tensor_id, name_id, pos_id, token_id, report_line"
            " FROM unkept_tally WHERE run_id = ?"),
      verdict_(db, "INSERT OR IGNORE INTO kept_verdict SELECT " + columns_of(db, "kept_verdict") +
                       " FROM verdict_part WHERE run_id = ?") {}

void TallyKeeper::keep(int64_t run_id) {
  for (SQLite::Statement* statement : {&keep_, &verdict_}) {
    statement->bind(1, run_id);
    statement->exec();
    statement->reset();
  }
}

void keep_tally(SQLite::Database& db, int64_t run_id) { TallyKeeper(db).keep(run_id); }

void forget_tally(SQLite::Database& db, int64_t run_id) {
  SQLite::Statement forget(db, "DELETE FROM kept_tally WHERE run_id = ?");
  forget.bind(1, run_id);
  forget.exec();
}

std::vector<int64_t> runs_without_tally(SQLite::Database& db, int64_t max_rows) {
  SQLite::Statement query(
      db,
      "SELECT r.id FROM unjudged_run u JOIN run r ON r.id = u.run_id WHERE r.status <> 'running'"
      " AND (SELECT count(*) FROM (SELECT 1 FROM trace_row WHERE run_id = r.id LIMIT ?1 + 1)) <= "
      "?1");
  query.bind(1, max_rows);
  std::vector<int64_t> ids;
  while (query.executeStep()) ids.push_back(query.getColumn(0).getInt64());
  return ids;
}

}  // namespace greta
