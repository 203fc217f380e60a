#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "db/fleet/pushed_run.h"
#include "db/fleet/server.h"
#include "db/statements.h"

namespace greta {

/// Brings the dictionaries of files that pushed into a database: what it has already goes by its
/// own id. Members throw clickhouse::Error or SQLite::Exception.
class RuleLoader {
 public:
  RuleLoader(FleetServer& server, SQLite::Database& db)
      : server_(server), db_(db), statements_(db) {}

  /// The rules that a run goes by, fetched when they are asked for first; the reference stays good.
  const Rules& load(const Published& run);

  /// Makes the tolerances by which all these were judged the database's. Throws where they differ:
  /// no verdict is by two.
  void use_tolerance();

 private:
  using Rows = std::vector<std::vector<CellText>>;

  std::map<std::string, Rows> fetch(uint64_t number, uint64_t n_records);
  void require_same(uint64_t number, const std::vector<Record>& sorted) const;
  void add_causes(const Rows& rows);
  void add_phases(const Rows& rows, Rules& rules);
  void add_tensors(const Rows& rows, Rules& rules);
  void add_names(const Rows& rows, const Rows& tensors, Rules& rules);
  static void add_tolerances(Rows rows, Rules& rules);

  FleetServer& server_;
  SQLite::Database& db_;
  Statements statements_;
  std::map<uint64_t, Rules> rules_;
};

}  // namespace greta
