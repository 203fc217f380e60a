#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "db/fleet/published.h"
#include "db/row_statement.h"
#include "db/statements.h"

namespace greta {

/// Ids of a file that pushed, and what they are in the database that is being filled.
using Ids = std::unordered_map<int64_t, int64_t>;

/// Dictionaries of a file that pushed.
struct Rules {
  Ids tensors, names, phases;
  /// Rows of `tolerance`, of trace points of this database.
  std::vector<std::vector<std::optional<std::string>>> tolerances;
};

/// A run of a push on its way into a database.
struct PushedRun {
  const Published* published = nullptr;
  const Rules* rules = nullptr;  ///< none: ids are of this database
  int64_t run_id = 0;            ///< here
  int64_t offset = 0;            ///< of the ids of rows that nothing but this run has
  Ids runs;                      ///< the run itself, and directory levels above it
  /// Directory levels, and their sources, that another run brought along; ids of the file.
  std::set<int64_t> known_runs;
  Ids known_sources;
  bool has_all_records = false, has_rows = false;

  /// An id of its file as it is here. Throws clickhouse::Error where it did not come along.
  int64_t mapped(Reference reference, int64_t id) const;
};

/// Puts what was pushed of runs into the tables that it is from, with ids of this database. Members
/// throw clickhouse::Error for what refers to nothing, std::runtime_error or SQLite::Exception.
class RunLoader {
 public:
  explicit RunLoader(SQLite::Database& db) : db_(db), statements_(db) {}

  /// Brings dictionaries along: what the database has already keeps its id. Records are in the
  /// order of their tables and numbers.
  Rules put_rules(const std::vector<Record>& records);
  /// Makes the tolerances of a file the database's.
  void use_tolerances(const Rules& rules);

  /// Records of one run, in any order.
  void put(PushedRun& run, std::vector<Record>& records);

  /// One with ids of this database, or none: a commit.
  void put_shared(const Record& record);

  /// A row of a table of fleet_tables(), but of changes and drift.
  void put_row(const PushedRun& run, size_t table, std::span<const FetchedValue> row);

  /// How a run compares with its baseline, where that is here as it was then.
  void put_change(const PushedRun& run, std::span<const FetchedValue> row);

 private:
  /// A table of SQLite as rows are put into it.
  struct Insert {
    Insert(SQLite::Database& db, const std::string& table, Columns of);
    Columns columns;
    bool has_run = false;
    RowStatement statement;
  };

  Insert& insert(const std::string& table);
  void bind(Insert& to, const PushedRun& run, const Column& column, const FetchedValue& value);
  void put_record(PushedRun& run, const Record& record);
  void put_plainly(const PushedRun& run, const Record& record);
  void put_run(PushedRun& run, const Record& record);
  void put_source(PushedRun& run, const Record& record);
  bool came_with_another(const PushedRun& run, const Record& record);
  int64_t id_of_name(const char* find, const std::string& name, SQLite::Statement& add);

  SQLite::Database& db_;
  Statements statements_;
  std::map<std::string, std::unique_ptr<Insert>> inserts_;
  std::map<std::string, int64_t, std::less<>> run_of_identity_;
};

}  // namespace greta
