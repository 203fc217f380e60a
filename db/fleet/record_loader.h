#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "db/fleet/pushed_run.h"
#include "db/statements.h"

namespace greta {

/// Puts records of pushes into the tables that they are of, ids turned into this database's.
/// Members throw clickhouse::Error for what refers to nothing, std::runtime_error or
/// SQLite::Exception.
class RecordLoader {
 public:
  explicit RecordLoader(SQLite::Database& db) : db_(db), statements_(db) {}

  /// Records of one run, in any order.
  void put(PushedRun& run, std::vector<Record>& records);

  /// One that refers to nothing of a run: a commit.
  void put_shared(const Record& record);

  /// How runs compare with others that are here, as they are here: once all of them are.
  void put_comparisons();

 private:
  /// A table as records are put into it.
  struct Table {
    std::vector<std::string> columns, types;
    std::vector<Reference> references;
    bool has_id = false;   ///< of its own, which nobody chooses
    bool has_run = false;  ///< says whose a row is
    std::unique_ptr<SQLite::Statement> insert;
  };

  Table& table(const std::string& name);
  void put_record(PushedRun& run, const Record& record);
  void put_run(PushedRun& run, const std::vector<CellText>& cells);
  void put_source(PushedRun& run, const std::vector<CellText>& cells);
  void put_noise(PushedRun& run, const std::vector<CellText>& cells);
  void put_comparison(const PushedRun& run, std::vector<CellText>& cells);
  int64_t put_row(const PushedRun& run, const std::string& name, const std::vector<CellText>& cells,
                  std::optional<int64_t> own_id = {});
  int64_t find_prompt(const PushedRun& run, const std::vector<CellText>& cells);
  bool came_with_another(const PushedRun& run, const Table& to,
                         const std::vector<CellText>& cells) const;

  SQLite::Database& db_;
  Statements statements_;
  std::map<std::string, Table> tables_;
  std::map<std::string, int64_t> run_of_identity_;
  std::vector<std::pair<const PushedRun*, Record>> comparisons_;
};

}  // namespace greta
