#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "db/clickhouse/row_binary.h"
#include "db/fleet/published.h"

namespace greta {

/// Ids of the file that pushed, and what they are in the database that is being filled.
using Ids = std::unordered_map<int64_t, int64_t>;

/// Throws clickhouse::Error, which names `what` the id is one of, where it did not come along.
int64_t mapped(const Ids& ids, int64_t id, const char* what);

/// What ids in a column refer to.
enum class Reference {
  kNone,  ///< a value
  kRun,
  kPrompt,
  kSource,
  kContext,
  kTensor,
  kName,
  kPhase,
  kVector,  ///< NULL here: sketches and samples come with all rows
};

/// By the column's name, which says the same in every table.
Reference reference_of(const std::string& column);

/// The dictionaries of a file that pushed: names and phases, and by which tolerances it was judged.
struct Rules {
  Ids tensors, names, phases;
  std::vector<std::vector<CellText>> tolerances;  ///< rows of `tolerance`, ids of that file
  std::string tolerance_text;                     ///< the same as text, ids of this database
  int64_t prefill_last = -1;                      ///< id of that phase in that file
  clickhouse::RowWriter name_rows;                ///< external table `names` of tally.sql
};

/// A run of a push on its way into a database.
struct PushedRun {
  const Published* published = nullptr;
  const Rules* rules = nullptr;
  int64_t run_id = 0;  ///< here
  Ids runs, prompts, sources, contexts;
  /// Directory levels, and their sources, that another run brought along; ids of the file.
  std::set<int64_t> known_runs, known_sources;
  bool has_all_records = false, has_rows = false;
  RowSum records;  ///< those that were fetched

  /// An id of its file as it is here. Throws clickhouse::Error.
  int64_t mapped(Reference reference, int64_t id) const;
};

/// By the number of their push.
using PushedRuns = std::map<uint64_t, PushedRun>;

/// How many runs are asked for at once: a server holds their groups, a client their rows.
inline constexpr uint64_t kMostRowsAsked = 500'000;
inline constexpr size_t kMostRunsAsked = 1000;

/// "?, ?, ?".
std::string parameter_marks(size_t n);

/// "run_id, name" apart.
std::vector<std::string> split_columns(const std::string& columns);

}  // namespace greta
