#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/pages/page.h"
#include "cli/warehouse/sql_query.h"
#include "cli/warehouse/verdict.h"

namespace greta {

/// Columns of `history --format json`, as a select list over history_rows().
inline constexpr std::string_view kHistoryColumns =
    "experiment, mode, date, commit_sha, run, verdict, first_fail, layer, tensor, prompt,"
    " strict_verdict, strict_first_fail, strict_layer, strict_tensor, numeric_verdict,"
    " numeric_first_fail, numeric_layer, numeric_tensor, change, baseline, changed_layer,"
    " changed_tensor, why_not, injected, started_at, dtype, lineage, evidence, pairs, rounding,"
    " divergent, nonfinite";

/// The views history and change joined: "(SELECT ...)".
std::string history_rows();
inline constexpr std::string_view kHistoryOrder =
    " ORDER BY date, started_at, experiment, length(run), run";

/// Columns of the view regression, as a select list.
inline constexpr std::string_view kRegressionColumns =
    "change, gate, first_bad, first_bad_commit, first_bad_date, last_good,"
    " last_good_commit, layer, tensor, first_fail, fixed_run, fixed_commit, fixed_date,"
    " lineage";

/// The names in a select list.
std::vector<std::string> names_of(std::string_view select_list);

/// Pages of runs that lie beside the history's, by run.id: names of files.
using RunPages = std::map<int64_t, std::string>;

/// A row of a view, by column name.
using NamedRow = std::map<std::string, Value, std::less<>>;
std::string text_of(const NamedRow& row, std::string_view column);  ///< "" for NULL
bool has(const NamedRow& row, std::string_view column);

/// What a run of a history says.
struct HistoryRun {
  int64_t id = 0;
  NamedRow row;                 ///< kHistoryColumns
  std::string verdict, remark;  ///< as Headline has them
  FailPlace fail;               ///< where it first fails
  FailKind fail_kind = FailKind::kNone;
  std::optional<int64_t> ord;  ///< of its commit, parents before children
  bool injected = false;
  std::string change;  ///< "" without a baseline

  std::string text(std::string_view column) const { return text_of(row, column); }
};

/// "" where it has none.
std::string page_of_run(const RunPages& pages, const HistoryRun& run);

/// How far the phases of a run are apart at one trace point: a row of the view drift, or, where
/// that was not asked for, the counts of the causes that first fail there.
struct HistoryDrift {
  int64_t differ = 0, rounding = 0, divergent = 0, nonfinite = 0;
  bool read = false;  ///< the rest is known, too
  std::optional<double> rel_l2, tolerance;
  std::optional<int64_t> layer, pos_id;
  std::string prompt;

  /// Worse than within rounding.
  bool beyond() const { return divergent + nonfinite > 0; }
  std::optional<double> ratio() const;
};

/// A place where a lineage turned for the worse: a row of the view regression.
struct HistoryTurn {
  NamedRow row;
  size_t first_bad = 0;  ///< of History::runs
};

struct History {
  std::vector<HistoryRun> runs;      ///< in order of time
  std::vector<HistoryTurn> turns;    ///< in order of time
  std::vector<std::string> tensors;  ///< that drift, in forward order
  /// By run and tensor.
  std::map<std::pair<size_t, size_t>, HistoryDrift> drift;
  size_t drifting = 0;        ///< runs that have any
  size_t measured = 0;        ///< of those, the newest: runs whose distances were read
  size_t first_measured = 0;  ///< the oldest of these
};

/// Reads the runs that `where` selects, by columns of history. Distances are not kept, and a page
/// is not to be waited for: they are read of the newest runs, as many as can be looked at in a
/// second or two, which is a thousand runs of a thousand rows. Throws SQLite::Exception.
History read_history(SQLite::Database& db, const Where& where);

}  // namespace greta
