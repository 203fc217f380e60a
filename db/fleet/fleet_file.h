#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "db/database.h"
#include "db/fleet/published.h"
#include "db/statements.h"

// Runs of a warehouse, fetched into a SQLite database.

namespace greta {

/// Records of a run to fetch in addition to its rows.
enum class Records {
  kVerdict,  ///< what says how a run came out, and what it is compared with
  kAll,
};

/// Runs of a warehouse in a SQLite database, whose views then answer as over a file. Ids are of
/// this database. Members throw clickhouse::Error where anything that was published is not there or
/// refers to nothing, DatabaseError or SQLite::Exception.
class FleetFile {
 public:
  /// `db`: an empty database, in which triggers and foreign keys are switched off.
  explicit FleetFile(FleetServer& server, SQLite::Database&& db = open_temporary());
  ~FleetFile();
  FleetFile(const FleetFile&) = delete;
  FleetFile& operator=(const FleetFile&) = delete;

  SQLite::Database& db() { return db_; }

  /// Fetches runs with their verdicts, and how they compare with one another. To be called once.
  void add(std::vector<Published> runs, Records records);
  /// Fetches the repository's commits, which baselines go by.
  void add_commits();
  /// Fetches the trace rows of some of these, where they are not here yet.
  void add_rows(const std::vector<int64_t>& run_ids);
  /// Compares runs with their baselines where that was not pushed: fetches the rows of both.
  void compare_with_baselines();
  /// Has the server hash the rows of these runs that are not here.
  void check_rows_of(const std::vector<int64_t>& run_ids);

  const std::vector<Published>& runs() const { return runs_; }
  int64_t run_id(size_t run) const;  ///< of runs()[run]

 private:
  /// Ids of a file that pushed, and what they are here.
  using Ids = std::unordered_map<int64_t, int64_t>;
  struct Rules;
  struct Run;
  struct Insert;
  using Row = std::vector<FetchedValue>;

  const Rules& rules_of(uint64_t push);
  Rules put_rules(const std::vector<Record>& records);
  int64_t id_of_name(const char* find, const std::string& name, SQLite::Statement& add);
  void fetch_records(const std::vector<Published>& asked, bool for_verdicts, bool for_rows);
  template <class Take>
  void fetch(size_t table, const std::vector<Published>& asked, const Take& take);
  std::vector<Run*> runs_of(const std::vector<int64_t>& run_ids);

  Insert& insert(const std::string& table);
  void put_row(const Run& run, size_t table, const Row& row);
  void put_change(const Run& run, const Row& row);
  void put_record(Run& run, const Record& record);
  void put_run(Run& run, Record record);
  void put_plainly(const Run& run, const Record& record);

  FleetServer& server_;
  SQLite::Database db_;
  Statements statements_;
  std::vector<Published> runs_;
  std::map<uint64_t, Rules> rules_;  // by their push
  std::map<uint64_t, Run> by_push_;  // of runs_
  FoundRows found_;                  // that were fetched
  std::map<std::string, std::unique_ptr<Insert>> inserts_;
  std::map<std::string, int64_t, std::less<>> run_of_identity_;
};

}  // namespace greta
