#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "cli/show/history.h"

namespace greta {
namespace {

constexpr size_t kMostColumns = 60;  // of a matrix, before older ones are put together
constexpr size_t kNewest = 30;       // that stay alone

int severity_of_change(const std::string& change) {
  const char* order[] = {"BROKEN", "CHANGED", "FIXED", "ROUNDING", "INCOMPARABLE", "SAME"};
  const auto* found = std::find(std::begin(order), std::end(order), change);
  return static_cast<int>(std::end(order) - found);
}

/// "cpu · f32 · greta synth tiny f32" of "toy/as_designed/cpu/f32/greta synth tiny f32/-".
std::string rest_of(const HistoryRun& run) {
  const std::string lineage = run.text("lineage"), mode = run.text("mode");
  const std::string before = run.text("experiment") + "/" + (mode.empty() ? "-" : mode) + "/";
  if (!lineage.starts_with(before)) return lineage;
  std::string rest;
  for (size_t at = before.size(); at <= lineage.size();) {
    const size_t end = std::min(lineage.find('/', at), lineage.size());
    const std::string part = lineage.substr(at, end - at);
    if (part != "-") rest += (rest.empty() ? "" : " · ") + part;
    at = end + 1;
  }
  return rest;
}

std::string place_in_order(const HistoryRun& run) {
  const std::string commit = run.text("commit_sha");
  return commit.empty() ? run.text("date") : commit;
}

/// One family while it is put together.
struct Building {
  HistoryFamily family;
  std::vector<size_t> runs;
};

class FamilyLayout {
 public:
  FamilyLayout(const History& history, const std::set<size_t>& first_bad, Building& building)
      : history_(history), first_bad_(first_bad), runs_(building.runs), family_(building.family) {}

  void lay_out() {
    const std::vector<std::string> commits = ordered_commits();
    std::map<std::string, size_t> column = columns_of(commits);
    std::map<std::string, size_t> rows;
    for (const size_t run : runs_) rows.try_emplace(history_.runs[run].text("lineage"), 0);
    for (auto& [lineage, row] : rows) {
      row = family_.lineages.size();
      family_.lineages.push_back({"", lineage, std::vector<HistoryCell>(family_.columns.size())});
    }
    for (const size_t run : runs_) {
      const HistoryRun& one = history_.runs[run];
      HistoryLineage& lineage = family_.lineages[rows[one.text("lineage")]];
      lineage.mode = one.text("mode");
      const size_t at = column[place_in_order(one)];
      lineage.cells[at].push_back(run);
      HistoryColumn& where = family_.columns[at];
      const std::string date = one.text("date");
      if (date.empty()) continue;
      if (where.first_date.empty() || date < where.first_date) where.first_date = date;
      if (date > where.last_date) where.last_date = date;
    }
    for (HistoryLineage& lineage : family_.lineages) {
      for (HistoryCell& cell : lineage.cells) worst_first(cell);
    }
  }

 private:
  std::vector<std::string> ordered_commits() const {
    std::vector<std::string> commits;
    std::map<std::string, std::optional<int64_t>> ords;
    bool all = true;
    for (const size_t run : runs_) {
      const HistoryRun& one = history_.runs[run];
      const std::string commit = place_in_order(one);
      if (ords.try_emplace(commit, one.ord).second) commits.push_back(commit);
      all = all && one.ord.has_value();
    }
    if (all) {
      std::stable_sort(commits.begin(), commits.end(),
                       [&](const auto& a, const auto& b) { return ords[a] < ords[b]; });
    }
    return commits;
  }

  /// Makes the columns; says where each commit is.
  std::map<std::string, size_t> columns_of(const std::vector<std::string>& commits) {
    std::set<std::string> turned;
    for (const size_t run : runs_) {
      if (first_bad_.contains(run)) turned.insert(place_in_order(history_.runs[run]));
    }
    const size_t alone = commits.size() > kMostColumns ? commits.size() - kNewest : 0;
    const size_t together = (alone + kMostColumns - kNewest - 1) / (kMostColumns - kNewest);
    std::map<std::string, size_t> place;
    bool open = false;  // the last column takes more
    for (size_t i = 0; i < commits.size(); ++i) {
      const bool single = i >= alone || turned.contains(commits[i]);
      if (single || !open || family_.columns.back().commits.size() >= together)
        family_.columns.emplace_back();
      open = !single;
      family_.columns.back().commits.push_back(commits[i]);
      place[commits[i]] = family_.columns.size() - 1;
    }
    return place;
  }

  void worst_first(HistoryCell& cell) const {
    std::stable_sort(cell.begin(), cell.end(), [this](size_t a, size_t b) {
      const HistoryRun &x = history_.runs[a], &y = history_.runs[b];
      return std::tuple(first_bad_.contains(b), severity_of(y), severity_of_change(y.change), b) <
             std::tuple(first_bad_.contains(a), severity_of(x), severity_of_change(x.change), a);
    });
  }

  const History& history_;
  const std::set<size_t>& first_bad_;
  const std::vector<size_t>& runs_;
  HistoryFamily& family_;
};

}  // namespace

int severity_of(const HistoryRun& run) {
  if (run.injected) return 0;
  if (run.verdict == "FAIL") return 4;
  if (run.verdict != "PASS") return 3;
  return run.remark.empty() ? 1 : 2;
}

std::vector<HistoryFamily> lay_out(const History& history) {
  std::map<std::pair<std::string, std::string>, Building> families;
  for (size_t i = 0; i < history.runs.size(); ++i) {
    const HistoryRun& run = history.runs[i];
    const std::string experiment = run.text("experiment"), rest = rest_of(run);
    Building& building = families[{experiment, rest}];
    building.family.experiment = experiment;
    building.family.rest = rest;
    building.runs.push_back(i);
  }
  std::set<size_t> first_bad;
  for (const HistoryTurn& turn : history.turns) {
    first_bad.insert(turn.first_bad);
    if (has(turn.row, "fixed_run")) continue;
    const HistoryRun& run = history.runs[turn.first_bad];
    ++families[{run.text("experiment"), rest_of(run)}].family.open_turns;
  }
  std::vector<HistoryFamily> result;
  for (auto& [key, building] : families) {
    FamilyLayout(history, first_bad, building).lay_out();
    result.push_back(std::move(building.family));
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const HistoryFamily& a, const HistoryFamily& b) {
                     return (a.open_turns > 0) > (b.open_turns > 0);
                   });
  return result;
}

}  // namespace greta
