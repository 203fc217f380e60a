#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/warehouse/run_name.h"
#include "db/fleet/fleet_file.h"

// The database that a command asks: a file, or runs fetched from a warehouse.

namespace greta {

/// Runs that a command asks about, and what it needs of them. A file has all of it at hand; of a
/// warehouse in ClickHouse only this is fetched.
struct Question {
  std::vector<std::string> runs;  ///< as --run takes them; none: all
  Repeats repeats = Repeats::kAll;
  PublishedFilter filter;
  bool everything = false;    ///< of tables that say no verdict: readouts, plans, logs
  bool rows = false;          ///< trace rows of all runs named
  bool failing_rows = false;  ///< of those that do not pass; the others' are hashed by the server
  bool drift = false;         ///< trace rows of the newest runs whose drift a page draws
  bool compared = false;      ///< whole lineages, each run compared with its baseline
  bool changed_rows = false;  ///< trace rows of lineages where something changed
  /// Writes what the question needs beside verdicts, as judge_change() does.
  std::function<void(SQLite::Database&)> prepare = nullptr;
};

/// The database that a command asks: a file opened for reading (open_for_reading), or what was
/// asked for of a warehouse in ClickHouse, in a database that goes with this object.
class AskedDatabase {
 public:
  AskedDatabase(const std::string& database, const Question& question);
  ~AskedDatabase();
  AskedDatabase(const AskedDatabase&) = delete;
  AskedDatabase& operator=(const AskedDatabase&) = delete;

  SQLite::Database& db() { return fleet_ ? fleet_->db() : *file_; }

 private:
  std::unique_ptr<SQLite::Database> file_;
  std::unique_ptr<FleetServer> server_;
  std::unique_ptr<FleetFile> fleet_;
};

}  // namespace greta
