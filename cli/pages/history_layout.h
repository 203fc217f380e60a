#pragma once
#include <string>
#include <vector>

#include "cli/pages/history_reader.h"

namespace greta {

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

/// How bad a run is, for cells that stand for several: what fails, what has no verdict, what is
/// within rounding, what passes; a fault on purpose after all.
int severity_of(const HistoryRun& run);

/// The history as matrices, those with something unmended first, else by name. Commits are in their
/// own order where all are known, else by time. Of many the older ones are put together, but for
/// those where it turned for the worse.
std::vector<HistoryFamily> lay_out(const History& history);

}  // namespace greta
