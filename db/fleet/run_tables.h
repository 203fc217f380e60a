#pragma once
#include <span>
#include <string>

namespace greta {

/// What a push of a run holds of a table, beside its trace rows and differences.
struct RunTable {
  const char* name;
  /// ?1 is the run, ?2 a JSON array of it and of the directory levels above it, ?3 one of the
  /// sources that any of these, or a row of the run, is of.
  const char* condition;
};

/// Tables with rows of a run, those that others refer to first.
std::span<const RunTable> run_tables();

/// Tables that all runs of a file share: names, causes, tolerances. Ids that a run's rows have are
/// theirs.
std::span<const char* const> rule_tables();

}  // namespace greta
