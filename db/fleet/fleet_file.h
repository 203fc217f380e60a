#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <filesystem>
#include <vector>

#include "db/fleet/pushed_run.h"
#include "db/fleet/record_loader.h"
#include "db/fleet/row_loader.h"
#include "db/fleet/rule_loader.h"

namespace greta {

/// What of a run's tables is fetched, beside its trace rows.
enum class Records {
  kVerdict,  ///< what says how a run came out, and what it is compared with
  kAll,
};

/// Runs of a warehouse in a SQLite database of their own, whose views then answer: the same SQL as
/// over a file. Ids are of this database. Members throw clickhouse::Error where anything that was
/// published is not there, DatabaseError or SQLite::Exception.
class FleetFile {
 public:
  /// A database that goes with this object.
  explicit FleetFile(FleetServer& server);
  /// A new one in a file, to be merged into another.
  FleetFile(FleetServer& server, const std::filesystem::path& file);
  FleetFile(const FleetFile&) = delete;
  FleetFile& operator=(const FleetFile&) = delete;

  SQLite::Database& db() { return db_; }

  /// Fetches runs, with the verdict that was pushed and, for what asks whether there are rows, one
  /// of them. To be called once.
  void add(std::vector<Published> runs, Records records);
  /// Fetches the repository's commits, which baselines go by.
  void add_commits();
  /// Fetches the trace rows of some of these, where they are not here yet.
  void add_rows(const std::vector<int64_t>& run_ids);
  /// Puts the verdict that the shards work out in the place of that which was pushed.
  void judge(const std::vector<int64_t>& run_ids);
  /// The same of one that is worked out here, of their rows, which are fetched.
  void judge_here(const std::vector<int64_t>& run_ids);
  /// Compares runs with their baselines where nobody had both: fetches their rows.
  void compare_with_baselines();
  /// Ends the writing: from here on the database is only read.
  void close();

  const std::vector<Published>& runs() const { return runs_; }
  int64_t run_id(size_t run) const;  ///< of runs()[run]

 private:
  FleetFile(FleetServer& server, SQLite::Database&& db);

  void put_all(Records records);
  void put_rest(const std::vector<PushedRun*>& wanted);
  void note(uint64_t push, const Record& record);
  void require_records(const std::vector<Published>& runs);
  void keep_verdicts();
  std::vector<PushedRun*> pushed(const std::vector<int64_t>& run_ids);

  FleetServer& server_;
  SQLite::Database db_;
  std::vector<Published> runs_;
  PushedRuns pushed_;
  RuleLoader rules_;
  RecordLoader records_;
  RowLoader rows_;
};

}  // namespace greta
