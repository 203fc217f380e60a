#include "db/fleet/fleet_file.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "common/stop_signal.h"
#include "db/database.h"
#include "db/fleet/run_tables.h"
#include "db/fleet/shard_judge.h"
#include "db/kept_diff.h"
#include "db/kept_tally.h"

namespace greta {
namespace {

/// Tables that verdicts, and what they are compared with, do not need.
constexpr const char* kNotForVerdicts[] = {"row_context", "trace_repeat", "readout",    "plan",
                                           "log_event",   "document_row", "noise_floor"};
/// Of these, that there is a row.
constexpr const char* kOneRowOf = "plan";

std::vector<std::string> tables_for_verdicts() {
  std::vector<std::string> tables;
  for (const RunTable& table : run_tables()) {
    const bool is_wanted =
        std::none_of(std::begin(kNotForVerdicts), std::end(kNotForVerdicts),
                     [&](const char* name) { return std::strcmp(name, table.name) == 0; });
    if (is_wanted) tables.emplace_back(table.name);
  }
  return tables;
}

}  // namespace

FleetFile::FleetFile(FleetServer& server, SQLite::Database&& db)
    : server_(server), db_(std::move(db)), rules_(server, db_), records_(db_), rows_(server, db_) {}

FleetFile::FleetFile(FleetServer& server) : FleetFile(server, open_temporary()) {}

FleetFile::FleetFile(FleetServer& server, const std::filesystem::path& file)
    : FleetFile(server, open_for_writing(file)) {
  sqlite3_db_config(db_.getHandle(), SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(db_.getHandle(), SQLITE_DBCONFIG_ENABLE_FKEY, 0, nullptr);
}

int64_t FleetFile::run_id(size_t run) const { return pushed_.at(runs_[run].push).run_id; }

void FleetFile::add(std::vector<Published> runs, Records records) {
  runs_ = std::move(runs);
  SQLite::Transaction transaction(db_);
  for (const Published& one : runs_) {
    PushedRun& run = pushed_[one.push];
    run.published = &one;
    run.rules = &rules_.load(one);
    run.has_all_records = records == Records::kAll;
  }
  if (records == Records::kVerdict) check_record_counts(server_, runs_);
  put_all(records);
  db_.exec("INSERT OR REPLACE INTO lineage_member SELECT * FROM run_lineage");
  records_.put_comparisons();
  keep_verdicts();
  transaction.commit();
}

/// In the order of the runs: ids ascend as in the files that they are from.
void FleetFile::put_all(Records records) {
  const bool for_verdicts = records == Records::kVerdict;
  std::map<uint64_t, std::vector<Record>> all;
  for_each_record(server_, runs_, for_verdicts ? tables_for_verdicts() : std::vector<std::string>(),
                  for_verdicts ? kOneRowOf : nullptr, [&](uint64_t push, Record& record) {
                    if (!for_verdicts || record.kind != kOneRowOf) note(push, record);
                    all[push].push_back(std::move(record));
                  });
  if (!for_verdicts) require_records(runs_);
  for (const Published& run : runs_) {
    throw_if_stopped();
    records_.put(pushed_.at(run.push), all[run.push]);
    all.erase(run.push);
  }
}

void FleetFile::note(uint64_t push, const Record& record) {
  pushed_.at(push).records.add(hash_of_cells(record.kind, record.ord, record.cells));
}

/// Of all tables they are here.
void FleetFile::require_records(const std::vector<Published>& runs) {
  std::map<uint64_t, RowSum> found;
  for (const Published& run : runs) found[run.push] = pushed_.at(run.push).records;
  require_all(server_, runs, found, "records", &Published::records, Held::kContent);
}

/// Of runs that nobody had judged when they were pushed.
void FleetFile::keep_verdicts() {
  std::vector<int64_t> unsummed;
  SQLite::Statement query(db_,
                          "SELECT DISTINCT run_id FROM kept_tally WHERE run_id NOT IN"
                          " (SELECT run_id FROM kept_verdict)");
  while (query.executeStep()) unsummed.push_back(query.getColumn(0).getInt64());
  TallyKeeper keeper(db_);
  for (const int64_t id : unsummed) keeper.keep({id, {}});
}

void FleetFile::add_commits() {
  SQLite::Transaction transaction(db_);
  for_each_record(server_, kCommitsPush, {},
                  [&](uint64_t, Record& record) { records_.put_shared(record); });
  transaction.commit();
}

void FleetFile::add_rows(const std::vector<int64_t>& run_ids) {
  SQLite::Transaction transaction(db_);
  const std::vector<PushedRun*> wanted = pushed(run_ids);
  put_rest(wanted);
  rules_.use_tolerance();
  rows_.load(pushed_, wanted);
  transaction.commit();
}

/// Records of the tables that were left out.
void FleetFile::put_rest(const std::vector<PushedRun*>& wanted) {
  std::vector<Published> asked;
  for (PushedRun* run : wanted) {
    if (std::exchange(run->has_all_records, true)) continue;
    asked.push_back(*run->published);
    SQLite::Statement remove(db_, "DELETE FROM plan WHERE run_id = ?");  // the one of kOneRowOf
    remove.bind(1, run->run_id);
    remove.exec();
  }
  if (asked.empty()) return;
  std::map<uint64_t, std::vector<Record>> all;
  for_each_record(server_, asked, {std::begin(kNotForVerdicts), std::end(kNotForVerdicts)},
                  [&](uint64_t push, Record& record) {
                    note(push, record);
                    all[push].push_back(std::move(record));
                  });
  require_records(asked);
  for (const Published& one : asked) records_.put(pushed_.at(one.push), all[one.push]);
}

void FleetFile::judge(const std::vector<int64_t>& run_ids) {
  SQLite::Transaction transaction(db_);
  rules_.use_tolerance();
  const std::vector<PushedRun*> wanted = pushed(run_ids);
  ShardJudge(server_, db_, pushed_).judge({wanted.begin(), wanted.end()});
  transaction.commit();
}

void FleetFile::judge_here(const std::vector<int64_t>& run_ids) {
  add_rows(run_ids);
  SQLite::Transaction transaction(db_);
  TallyReader reader(db_);
  TallyKeeper keeper(db_);
  for (const int64_t id : run_ids) {
    throw_if_stopped();
    forget_tally(db_, id);
    keeper.keep(reader.read(id));
  }
  transaction.commit();
}

void FleetFile::compare_with_baselines() {
  std::vector<int64_t> open;
  {
    SQLite::Statement pairs(
        db_,
        "SELECT b.run_id, b.baseline_id FROM run_baseline b WHERE b.baseline_id IS NOT NULL AND NOT"
        " EXISTS (SELECT 1 FROM kept_diff k WHERE k.run_a_id = b.baseline_id AND k.run_b_id ="
        " b.run_id)");
    while (pairs.executeStep()) {
      open.push_back(pairs.getColumn(0).getInt64());
      open.push_back(pairs.getColumn(1).getInt64());
    }
  }
  if (open.empty()) return;
  add_rows(open);
  keep_all_diffs(db_);
}

void FleetFile::close() { db_.exec("PRAGMA query_only = ON"); }

std::vector<PushedRun*> FleetFile::pushed(const std::vector<int64_t>& run_ids) {
  const std::set<int64_t> wanted(run_ids.begin(), run_ids.end());
  std::vector<PushedRun*> found;
  for (auto& [number, run] : pushed_) {
    if (wanted.contains(run.run_id)) found.push_back(&run);
  }
  return found;
}

}  // namespace greta
