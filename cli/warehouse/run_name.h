#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <string>
#include <vector>

// The runs that --run means.

namespace greta {

struct Run {
  int64_t id;
  std::string name;

  bool operator==(const Run&) const = default;
};

/// What of NAME, NAME#2, NAME#3, ... is meant (`free_run_name` in db/run_records.h makes such
/// names).
enum class Repeats {
  kAll,     ///< each is a run by itself
  kLatest,  ///< only the one of the highest number; #10 is after #2
};

/// Things that a text may name.
enum class Naming {
  kAny,  ///< a run or an experiment by its exact name, else the one run whose name contains it
  kRun,  ///< a run by its exact name: where a wrong run would be worse than an error
  kExperiment,  ///< an experiment by its exact name
};

/// The runs that `text` names. Case matters and nothing is a wildcard. A directory level that only
/// carries attributes is not a run. Throws UsageError that lists the candidates when several names
/// contain the text, and near names when none does.
std::vector<Run> resolve_runs(SQLite::Database& db, const std::string& text,
                              Repeats repeats = Repeats::kAll, Naming naming = Naming::kAny);

/// The same for where only one run will do: several throw UsageError.
Run resolve_run(SQLite::Database& db, const std::string& text, Naming naming = Naming::kAny);

/// resolve_runs, or every run when text is "". In order of id.
std::vector<Run> resolve_runs_or_all(SQLite::Database& db, const std::string& text,
                                     Repeats repeats = Repeats::kAll);

/// NAME#2, NAME#3, ... of a run NAME, those after a run NAME#2, in order of number.
std::vector<Run> later_runs(SQLite::Database& db, const Run& run);

}  // namespace greta
