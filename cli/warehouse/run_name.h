#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <string>
#include <vector>

namespace greta {

struct Run {
  int64_t id;
  std::string name;
};

/// The runs that `text` means: the run of exactly that name, else all runs of exactly that
/// experiment, else the one run whose name contains it. Case matters and nothing is a wildcard. A
/// directory level that only carries attributes is not a run. Throws UsageError that lists
/// the candidates when several names contain the text, and near names when none does.
std::vector<Run> resolve_runs(SQLite::Database& db, const std::string& text);

/// The same for where only one run will do: an experiment of several throws UsageError.
Run resolve_run(SQLite::Database& db, const std::string& text);

/// resolve_runs, or every run when text is "". In order of id.
std::vector<Run> resolve_runs_or_all(SQLite::Database& db, const std::string& text);

}  // namespace greta
