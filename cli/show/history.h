#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/show/block.h"
#include "cli/show/judged_row.h"
#include "cli/warehouse/run_name.h"
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
inline constexpr std::string_view kHistoryOrder = " ORDER BY ord";

/// Columns of the view regression, as a select list.
inline constexpr std::string_view kRegressionColumns =
    "change, gate, first_bad, first_bad_commit, first_bad_date, last_good,"
    " last_good_commit, layer, tensor, first_fail, fixed_run, fixed_commit, fixed_date,"
    " lineage";

/// The names in a select list.
std::vector<std::string> names_of(std::string_view select_list);

/// Pages of runs that lie beside the history's, by run.id: names of files.
using RunPages = std::map<int64_t, std::string>;

/// A run of a history.
struct HistoryRun {
  /// `query` stands on a row of kVerdictColumns, kHistoryColumns and run_id.
  explicit HistoryRun(const Query& query) : row(query), head(row) {}

  RunVerdict row;
  Headline head;

  int64_t id() const { return row.number("run_id"); }
  std::string text(std::string_view column) const { return row.text(column); }
  bool injected() const { return row.number("injected") != 0; }
  std::string change() const { return row.text("change"); }  ///< "" without a baseline
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
  RunVerdict row;
  size_t first_bad;  ///< of History::runs
};

struct History {
  std::vector<HistoryRun> runs;      ///< in order
  std::vector<HistoryTurn> turns;    ///< in order
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

/// A column of a matrix: a commit (a date, of runs that name none), or several that follow each
/// other.
struct HistoryColumn {
  std::vector<std::string> commits;
  std::string first_date, last_date;
  bool is_group() const { return commits.size() > 1; }
};

/// A cell: its runs, the worst first.
using HistoryCell = std::vector<size_t>;

struct HistoryLineage {
  std::string mode, lineage;
  std::vector<HistoryCell> cells;  ///< by column
};

/// Lineages that differ in their mode alone: one matrix.
struct HistoryFamily {
  std::string experiment;
  std::string
      rest;  ///< backend, dtype, model, suite and a KV cache that is not f32, as far as known
  std::vector<HistoryColumn> columns;
  std::vector<HistoryLineage> lineages;
  size_t open_turns = 0;  ///< that nothing mended
};

/// The meaning of a run, for cells that stand for several: that of its verdict, or of one that is
/// within rounding; a fault on purpose is context.
const Meaning& meaning_of(const HistoryRun& run);

/// The history as matrices, those with something unmended first, else by name. Commits are in the
/// order of the view run_order. Of many the older ones are put together, but for
/// those where it turned for the worse.
std::vector<HistoryFamily> lay_out(const History& history);

/// "4b2f0c1d9e3a", "2026-01-04", "12 commits": what a column is called.
std::string column_name(const HistoryColumn& column, const Wording& words);

/// The data of a history's page: "runs", "regressions" and "drift" as {"columns", "rows"} of the
/// views, runs from number `first_listed` on, which counts as 0; "heads": the verdict that leads of
/// each; "families": cells by lineage and column, each 0 or how many runs it has and the numbers of
/// those, the worst first; "pages": files by run.
std::string json_of_history(const History& history, const std::vector<HistoryFamily>& families,
                            const RunPages& pages, size_t first_listed, const Wording& words);

/// Writes the page of a history: a matrix of commits and modes for each lineage, how far each trace
/// point drifts, where it turned for the worse, and every run. Throws what `sink` throws.
void write_history_page(const History& history, const RunPages& pages, Language language,
                        const TextSink& sink);

/// The runs of a history by how much there is to see: where it turned for the worse, what fails,
/// what has no verdict, the rest; of each the newest first.
std::vector<Run> runs_worth_a_page(const History& history);

}  // namespace greta
