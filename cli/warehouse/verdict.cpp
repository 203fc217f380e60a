#include "cli/warehouse/verdict.h"

#include <algorithm>
#include <stdexcept>

namespace greta {

RunVerdict::RunVerdict(const Query& row) : names_(row.column_names()) {
  for (int i = 0; i < row.columns(); i++) cells_.push_back(row.cell(i));
}

const Cell& RunVerdict::cell(std::string_view column) const {
  auto found = std::find(names_.begin(), names_.end(), column);
  if (found == names_.end()) throw std::logic_error("no column " + std::string(column));
  return cells_[static_cast<size_t>(found - names_.begin())];
}

void ExitOfVerdicts::add(const RunVerdict& run) {
  int status =
      exit_of_verdict(run.cell(gate_ == Gate::kNumeric ? "numeric_verdict" : "verdict").text);
  (status == kExitDone ? pass_ : status == kExitFail ? fail_ : none_) = true;
}

int ExitOfVerdicts::status() const {
  if (fail_) return kExitFail;
  return pass_ && !none_ ? kExitDone : kExitNoVerdict;
}

}  // namespace greta
