#include "db/fleet/shared_records.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/sha256.h"
#include "db/database.h"
#include "db/fleet/published.h"
#include "db/fleet/record_writer.h"
#include "db/fleet/run_tables.h"
#include "db/row_statement.h"
#include "db/schema.h"

namespace greta {
namespace {

/// What one insert may hold; so much is a history of a hundred thousand commits.
constexpr size_t kMostSharedBytes = size_t{12} << 20;

void add_rules(SQLite::Database& db, RecordWriter& records, uint64_t push) {
  records.clear();
  records.begin(push, push);
  for (const std::string table : rule_tables()) {
    RowStatement rows(db, "SELECT " + columns_of(db, table) + " FROM " + table + " ORDER BY 1, 2");
    records.add(rows, table, true);
  }
}

/// Those of a table that are not known, by the commit that each begins with.
void add_commits(SQLite::Database& db, const std::string& table, const std::set<std::string>& known,
                 RecordWriter& records) {
  RowStatement rows(db, "SELECT * FROM " + table);
  const int columns = rows.columns();
  while (rows.step()) {
    if (known.contains(std::string(rows.bytes(0)))) continue;
    std::vector<CellText> cells;
    for (int i = 0; i < columns; ++i) cells.push_back(cell_text(rows, i));
    std::string key = table;
    for (const CellText& cell : cells) key += '\n' + cell.value_or("");
    records.add_row(table, number_of(Sha256::digest_of(key)), cells);
  }
  if (records.rows().size() > kMostSharedBytes)
    throw DatabaseError("the file has too many commits to be sent at once");
}

/// In one block of one insert, which is there as a whole or not at all: done again, it does no
/// harm.
void send_shared(FleetServer& server, const RecordWriter& records) {
  if (records.count() == 0) return;
  clickhouse::until_available(server.client().retries(), [&] {
    bool is_sent = false;
    server.insert("record", kRecordColumnsThere, [&]() -> std::string_view {
      return std::exchange(is_sent, true) ? std::string_view()
                                          : std::string_view(records.rows().bytes());
    });
  });
}

}  // namespace

uint64_t push_of_rules(RecordWriter& records) {
  const uint64_t push = number_of(records.content().digest());
  return push > kLastSharedPush ? push : push + kLastSharedPush + 1;
}

SharedRules send_rules(SQLite::Database& db, FleetServer& server) {
  RecordWriter records;
  add_rules(db, records, 0);
  const SharedRules rules{push_of_rules(records), records.count()};
  if (count_records(server, rules.push) == rules.records) return rules;
  add_rules(db, records, rules.push);
  send_shared(server, records);
  return rules;
}

void send_commits(SQLite::Database& db, FleetServer& server) {
  std::set<std::string> known;
  for_each_record(server, kCommitsPush, {"commit_node"},
                  [&](uint64_t, Record& record) { known.insert(*record.cells.at(0)); });
  RecordWriter records;
  records.begin(kCommitsPush, kCommitsPush);
  for (const char* table : {"commit_parent", "commit_node"}) add_commits(db, table, known, records);
  send_shared(server, records);
}

}  // namespace greta
