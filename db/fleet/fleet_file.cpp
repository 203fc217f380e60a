#include "db/fleet/fleet_file.h"

#include <sqlite3.h>

#include <set>
#include <string>
#include <utility>

#include "common/stop_signal.h"
#include "db/database.h"
#include "db/fleet/push.h"
#include "db/judge.h"

namespace greta {
namespace {

using clickhouse::RowReader;

/// Rows that are asked for at once.
constexpr uint64_t kMostRowsAsked = 500'000;
/// Ids of a file are less than this, so that those of its runs do not meet.
constexpr int64_t kIdsOfARun = int64_t{1} << 40;

/// Every run has a row, or it would look like a directory level above others: this one, where its
/// rows are not fetched.
constexpr const char* kAddRow =
    "INSERT INTO trace_row(run_id, prompt_id, side, pos_id, layer, tensor_id, nth, phase_id, step,"
    " name_id, flags, source_id, line) VALUES (?, 0, 2, -1, 0, 0, 0, 0, -1, 0, 0, 0, 0)";

/// Tables with records that verdicts need, or those that they do not.
std::vector<std::string> record_kinds(bool for_verdicts) {
  std::vector<std::string> kinds;
  for (const RecordTable& table : record_tables()) {
    if (table.for_verdicts == for_verdicts) kinds.emplace_back(table.name);
  }
  return kinds;
}

std::vector<Published> published_of(const std::vector<PushedRun*>& runs) {
  std::vector<Published> all;
  for (const PushedRun* run : runs) all.push_back(*run->published);
  return all;
}

}  // namespace

FleetFile::FleetFile(FleetServer& server, SQLite::Database&& db)
    : server_(server), db_(std::move(db)), loader_(db_) {}

FleetFile::FleetFile(FleetServer& server) : FleetFile(server, open_temporary()) {}

FleetFile::FleetFile(FleetServer& server, const std::filesystem::path& file)
    : FleetFile(server, open_for_writing(file)) {
  sqlite3_db_config(db_.getHandle(), SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(db_.getHandle(), SQLITE_DBCONFIG_ENABLE_FKEY, 0, nullptr);
}

int64_t FleetFile::run_id(size_t run) const { return pushed_.at(runs_[run].push).run_id; }

/// The dictionaries of a push, whose number says what they are.
const Rules& FleetFile::rules_of(uint64_t push) {
  const auto [known, is_new] = rules_.try_emplace(push);
  if (!is_new) return known->second;
  const std::vector<Record> records = shared_records(server_, push);
  uint64_t sum = 0;
  for (const Record& record : records) sum += record.hash();
  if (push_of_rules(sum) != push) {
    throw clickhouse::Error(server_.where() +
                            " has another dictionary of names and tolerances than was sent (push " +
                            std::to_string(push) + " of its records): no answer is made of it");
  }
  known->second = loader_.put_rules(records);
  return known->second;
}

void FleetFile::add(std::vector<Published> runs, Records records) {
  runs_ = std::move(runs);
  SQLite::Transaction transaction(db_);
  for (const Published& one : runs_) {
    const int64_t offset = kIdsOfARun * static_cast<int64_t>(pushed_.size());
    PushedRun& run = pushed_[one.push];
    run.published = &one;
    run.rules = &rules_of(one.rules);
    run.offset = offset;
  }
  put_records(runs_, true, records == Records::kAll);
  SQLite::Statement add_row(db_, kAddRow);
  for (const auto& [push, run] : pushed_) {
    add_row.bind(1, run.run_id);
    add_row.exec();
    add_row.reset();
  }
  db_.exec("INSERT OR REPLACE INTO lineage_member SELECT * FROM run_lineage");
  fetch(kVerdictTable, runs_, [&](const PushedRun& run, const std::vector<FetchedValue>& row) {
    loader_.put_row(run, kVerdictTable, row);
  });
  fetch(kChangeTable, runs_, [&](const PushedRun& run, const std::vector<FetchedValue>& row) {
    loader_.put_change(run, row);
  });
  transaction.commit();
}

/// In the order of the runs. What they say is compared with what was sent where all of it is here.
void FleetFile::put_records(const std::vector<Published>& runs, bool for_verdicts, bool for_rows) {
  const std::vector<std::string> kinds =
      for_verdicts && for_rows ? std::vector<std::string>() : record_kinds(for_verdicts);
  for (const std::vector<Published>& asked : portions(runs)) {
    throw_if_stopped();
    std::map<uint64_t, std::vector<Record>> all;
    for_each_record(server_, asked, kinds, [&](uint64_t push, Record& record) {
      records_[push].add(record.hash());
      all[push].push_back(std::move(record));
    });
    if (for_rows) {
      require_all(server_, asked, records_, kRecordTable, Held::kContent);
    } else {
      check_rows(server_, asked, std::array<size_t, 1>{kRecordTable}, Held::kCount);
    }
    for (const Published& one : asked) {
      PushedRun& run = pushed_.at(one.push);
      loader_.put(run, all[one.push]);
      run.has_all_records = for_rows;
    }
  }
}

/// Calls back with each row of a table, and holds them against what was sent.
template <class Take>
void FleetFile::fetch(size_t table, const std::vector<Published>& asked, const Take& take) {
  if (asked.empty()) return;
  const FleetTable& from = fleet_tables()[table];
  std::map<uint64_t, RowSum> found;
  std::vector<FetchedValue> row;
  server_.select("SELECT push, " + from.names + " FROM " + server_.table(from.name) +
                     " WHERE push IN (SELECT push FROM asked)",
                 "push, " + from.names,
                 [&](RowReader& reader) {
                   const uint64_t push = reader.u64();
                   const uint64_t hash = read_row(reader, from.columns, row);
                   found[push].add(hash);
                   take(pushed_.at(push), row);
                 },
                 {asked_table(asked)});
  require_all(server_, asked, found, table, Held::kContent);
}

void FleetFile::add_commits() {
  SQLite::Transaction transaction(db_);
  for (const Record& record : shared_records(server_, kCommitsPush)) loader_.put_shared(record);
  transaction.commit();
}

void FleetFile::add_drift() {
  // in the place of the view, which would ask for rows
  db_.exec(
      "CREATE TEMP TABLE drift AS SELECT * FROM main.drift WHERE 0;"
      "CREATE INDEX temp.drift_of_run ON drift(run_id)");
  RowStatement insert(db_,
                      "INSERT INTO temp.drift(run_id, tensor, differ, rounding, divergent,"
                      " nonfinite, rel_l2, tolerance, prompt, layer, pos_id, ord) VALUES (" +
                          parameter_marks(12) + ")");
  fetch(kDriftTable, runs_, [&](const PushedRun& run, const std::vector<FetchedValue>& row) {
    insert.bind(run.run_id);
    for (const FetchedValue& value : row) bind_value(insert, value, ColumnType::kText);
    insert.run();
  });
}

void FleetFile::add_rows(const std::vector<int64_t>& run_ids) {
  SQLite::Transaction transaction(db_);
  std::vector<PushedRun*> wanted = pushed(run_ids);
  use_tolerances(wanted);
  std::erase_if(wanted, [](const PushedRun* run) { return run->has_rows; });
  std::vector<PushedRun*> lacking = wanted;
  std::erase_if(lacking, [](const PushedRun* run) { return run->has_all_records; });
  put_records(published_of(lacking), false, true);
  SQLite::Statement remove(db_, "DELETE FROM trace_row WHERE run_id = ?");  // that of kAddRow
  SQLite::Statement note(db_,
                         "INSERT INTO traced_position SELECT run_id, prompt_id, side, pos_id,"
                         " max(phase_id = (SELECT id FROM phase WHERE name = 'prefill_last'))"
                         " FROM trace_row WHERE run_id = ? GROUP BY 1, 2, 3, 4");
  const auto of_each = [&](SQLite::Statement& statement) {
    for (const PushedRun* run : wanted) {
      statement.bind(1, run->run_id);
      statement.exec();
      statement.reset();
    }
  };
  of_each(remove);
  for (const std::vector<Published>& asked : portions(published_of(wanted), kMostRowsAsked)) {
    throw_if_stopped();
    for (const size_t table :
         {kTraceRowTable, kSketchTable, kSampleTable, kDifferenceTable, kDifferencePartTable}) {
      fetch(table, asked, [&](const PushedRun& run, const std::vector<FetchedValue>& row) {
        loader_.put_row(run, table, row);
      });
    }
  }
  of_each(note);
  for (PushedRun* run : wanted) run->has_rows = true;
  transaction.commit();
}

/// Throws where they differ: no verdict is by two.
void FleetFile::use_tolerances(const std::vector<PushedRun*>& runs) {
  if (runs.empty()) return;
  const Rules& first = *runs.front()->rules;
  for (const PushedRun* run : runs) {
    if (run->rules->tolerances == first.tolerances) continue;
    throw clickhouse::Error(
        "the runs asked for were judged by other tolerances (`greta-db tolerance`): name runs"
        " that were judged by the same");
  }
  loader_.use_tolerances(first);
}

void FleetFile::compare_with_baselines() {
  std::vector<std::pair<int64_t, int64_t>> open;
  std::vector<int64_t> both;
  {
    SQLite::Statement pairs(
        db_,
        "SELECT b.run_id, b.baseline_id FROM lineage b WHERE b.baseline_id IS NOT NULL AND NOT"
        " EXISTS (SELECT 1 FROM run_change c WHERE c.run_id = b.run_id AND c.baseline_id ="
        " b.baseline_id)");
    while (pairs.executeStep()) {
      open.emplace_back(pairs.getColumn(0).getInt64(), pairs.getColumn(1).getInt64());
      both.insert(both.end(), {open.back().first, open.back().second});
    }
  }
  add_rows(both);
  for (const auto& [run, baseline] : open) {
    throw_if_stopped();
    judge_change(db_, run, baseline);
  }
}

void FleetFile::check_rows_of(const std::vector<int64_t>& run_ids) {
  std::vector<PushedRun*> runs = pushed(run_ids);
  std::erase_if(runs, [](const PushedRun* run) { return run->has_rows; });
  for (const std::vector<Published>& asked : portions(published_of(runs)))
    check_all_rows(server_, asked, Held::kContent);
}

void FleetFile::close() { db_.exec("PRAGMA query_only = ON"); }

std::vector<PushedRun*> FleetFile::pushed(const std::vector<int64_t>& run_ids) {
  const std::set<int64_t> wanted(run_ids.begin(), run_ids.end());
  std::vector<PushedRun*> found;
  for (auto& [push, run] : pushed_) {
    if (wanted.contains(run.run_id)) found.push_back(&run);
  }
  return found;
}

}  // namespace greta
