#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <vector>

#include "db/fleet/run_loader.h"

namespace greta {

/// Records of a run to fetch in addition to its rows.
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

  /// Fetches runs with their verdicts, and how they compare with one another. To be called once.
  void add(std::vector<Published> runs, Records records);
  /// Fetches the repository's commits, which baselines go by.
  void add_commits();
  /// Fetches what drifts in these runs: the view drift without rows.
  void add_drift();
  /// Fetches the trace rows of some of these, where they are not here yet.
  void add_rows(const std::vector<int64_t>& run_ids);
  /// Compares runs with their baselines where that was not pushed: fetches the rows of both.
  void compare_with_baselines();
  /// Has the server hash the rows of these runs that are not here.
  void check_rows_of(const std::vector<int64_t>& run_ids);
  /// Ends the writing: from here on the database is only read.
  void close();

  const std::vector<Published>& runs() const { return runs_; }
  int64_t run_id(size_t run) const;  ///< of runs()[run]

 private:
  FleetFile(FleetServer& server, SQLite::Database&& db);

  const Rules& rules_of(uint64_t push);
  void use_tolerances(const std::vector<PushedRun*>& runs);
  void put_records(const std::vector<Published>& asked, bool for_verdicts, bool for_rows);
  template <class Take>
  void fetch(size_t table, const std::vector<Published>& asked, const Take& take);
  std::vector<PushedRun*> pushed(const std::vector<int64_t>& run_ids);

  FleetServer& server_;
  SQLite::Database db_;
  std::vector<Published> runs_;
  std::map<uint64_t, Rules> rules_;       // by their push
  std::map<uint64_t, PushedRun> pushed_;  // by push
  std::map<uint64_t, RowSum> records_;    // that were fetched, by push
  RunLoader loader_;
};

}  // namespace greta
