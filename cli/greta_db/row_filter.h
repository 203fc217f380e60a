#pragma once
#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"

namespace greta {

/// --run, --latest, --prompt, --layer, --tensor and --limit of the commands that list rows of runs.
struct RowFilter {
  std::string run, prompt, tensor;
  Repeats repeats = Repeats::kAll;
  std::optional<int64_t> layer, limit;

  void add_options(CLI::App& command);
  /// Throws UsageError for a prompt, a tensor or a layer that is nowhere.
  void check(SQLite::Database& db, const std::vector<Run>& runs) const;
  /// The conditions but --run, --latest and --limit; a tensor matches as written or by canonical
  /// name.
  void add_to(Where& where) const;
  /// Rows that may still be shown after `shown`; INT64_MAX without a limit.
  int64_t left(int64_t shown) const;
};

}  // namespace greta
