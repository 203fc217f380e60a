#include "cli/show/history.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

namespace greta {
namespace {

/// The most that the view drift may look at for one page: pairs, some 4 microseconds each; one that
/// differs takes as long as three.
constexpr int64_t kMostDriftWork = 420'000;

class HistoryReader {
 public:
  HistoryReader(SQLite::Database& db, const Where& where) : db_(db), where_(where) {}

  History read() {
    runs();
    turns();
    causes();
    distances();
    drop_equal();
    return std::move(history_);
  }

 private:
  void runs() {
    Query rows(db_, "SELECT " + std::string(kVerdictColumns) +
                        ", change, baseline, changed_layer, changed_tensor, why_not, injected,"
                        " started_at, dtype, lineage, run_id FROM (SELECT v.*,"
                        " c.change AS change, c.baseline AS baseline, c.layer AS changed_layer,"
                        " c.tensor AS changed_tensor, c.why_not AS why_not, h.injected AS injected,"
                        " h.started_at AS started_at, h.dtype AS dtype, h.lineage AS lineage,"
                        " o.ord AS ord FROM run_order o JOIN run_verdict v ON v.run_id = o.run_id"
                        " JOIN history h ON h.run_id = v.run_id"
                        " LEFT JOIN change c ON c.run_id = h.run_id)" +
                        where_.sql() + std::string(kHistoryOrder));
    where_.bind(rows);
    while (rows.step()) {
      const HistoryRun& run = history_.runs.emplace_back(rows);
      index_[run.id()] = history_.runs.size() - 1;
    }
  }

  void turns() {
    Query rows(db_, "SELECT " + std::string(kRegressionColumns) +
                        ", first_bad_id FROM regression ORDER BY first_bad_date, first_bad");
    while (rows.step()) {
      const auto run = index_.find(rows.integer(rows.columns() - 1));
      if (run != index_.end()) history_.turns.push_back({RunVerdict(rows), run->second});
    }
  }

  /// How many pairs differ, by the trace point where their cause first fails: kept of every run.
  void causes() {
    Query names(db_, "SELECT id, name FROM tensor ORDER BY ord, id");
    while (names.step()) {
      place_[names.text(1)] = history_.tensors.size();
      history_.tensors.push_back(names.text(1));
    }
    Query rows(db_,
               "SELECT v.run_id, k.name, sum(v.fail), sum(v.rounding), sum(v.divergent),"
               " sum(v.nonfinite) FROM verdict v JOIN tensor_name n ON n.name = v.strict_tensor"
               " JOIN tensor k ON k.id = n.tensor_id WHERE v.level = 'cause' AND v.fail > 0"
               " GROUP BY v.run_id, k.id");
    while (rows.step()) {
      const auto run = index_.find(rows.integer(0));
      if (run == index_.end()) continue;
      drift_of(run->second, rows.text(1)) = counts(rows, 2);
    }
  }

  void distances() {
    std::map<size_t, int64_t> drifting;  // runs, and how many of their pairs differ
    for (const auto& [key, drift] : history_.drift) drifting[key.first] += drift.differ;
    history_.drifting = drifting.size();
    Query rows(db_,
               "SELECT tensor, differ, rounding, divergent, nonfinite, rel_l2, tolerance, layer,"
               " pos_id, prompt FROM drift WHERE run_id = ?");
    int64_t work = 0;
    for (auto newest = drifting.rbegin(); newest != drifting.rend(); ++newest) {
      const auto& [run, differ] = *newest;
      const HistoryRun& one = history_.runs[run];
      work += one.row.number("pairs") + 2 * differ;
      if (work > kMostDriftWork && history_.measured > 0) break;
      ++history_.measured;
      history_.first_measured = run;
      history_.drift.erase(history_.drift.lower_bound({run, 0}),
                           history_.drift.lower_bound({run + 1, 0}));
      rows.reset();
      rows.bind(1, one.id());
      while (rows.step()) {
        HistoryDrift& drift = drift_of(run, rows.text(0));
        drift = counts(rows, 1);
        drift.read = true;
        drift.rel_l2 = rows.cell(5).number();
        drift.tolerance = rows.cell(6).number();
        drift.layer = rows.cell(7).id();
        drift.pos_id = rows.cell(8).id();
        drift.prompt = rows.text(9);
      }
    }
  }

  static HistoryDrift counts(const Query& row, int first) {
    HistoryDrift drift;
    drift.differ = row.integer(first);
    drift.rounding = row.integer(first + 1);
    drift.divergent = row.integer(first + 2);
    drift.nonfinite = row.integer(first + 3);
    return drift;
  }

  HistoryDrift& drift_of(size_t run, const std::string& tensor) {
    return history_.drift[{run, place_.at(tensor)}];
  }

  /// Leaves trace points out that never differ.
  void drop_equal() {
    std::map<size_t, size_t> kept;
    for (const auto& [key, drift] : history_.drift) kept[key.second] = 0;
    std::vector<std::string> tensors;
    for (auto& [before, after] : kept) {
      after = tensors.size();
      tensors.push_back(history_.tensors[before]);
    }
    std::map<std::pair<size_t, size_t>, HistoryDrift> drift;
    for (const auto& [key, one] : history_.drift) drift[{key.first, kept[key.second]}] = one;
    history_.tensors = std::move(tensors);
    history_.drift = std::move(drift);
  }

  SQLite::Database& db_;
  const Where& where_;
  std::map<int64_t, size_t> index_;      // of runs, by their ids
  std::map<std::string, size_t> place_;  // of trace points
  History history_;
};

}  // namespace

std::string history_rows() {
  return "(SELECT h.*, c.change AS change, c.baseline AS baseline, c.layer AS changed_layer,"
         " c.tensor AS changed_tensor, c.why_not AS why_not, o.ord AS ord FROM run_order o"
         " JOIN history h ON h.run_id = o.run_id LEFT JOIN change c ON c.run_id = h.run_id)";
}

std::vector<std::string> names_of(std::string_view select_list) {
  std::vector<std::string> names;
  for (size_t at = 0; at < select_list.size();) {
    const size_t end = std::min(select_list.find(", ", at), select_list.size());
    names.emplace_back(select_list.substr(at, end - at));
    at = end + 2;
  }
  return names;
}

std::string page_of_run(const RunPages& pages, const HistoryRun& run) {
  const auto found = pages.find(run.id());
  return found == pages.end() ? "" : found->second;
}

std::optional<double> HistoryDrift::ratio() const {
  if (!rel_l2 || !tolerance || *tolerance <= 0 || !std::isfinite(*rel_l2)) return std::nullopt;
  return *rel_l2 / *tolerance;
}

History read_history(SQLite::Database& db, const Where& where) {
  return HistoryReader(db, where).read();
}

// ---- The layout.
namespace {

constexpr size_t kMostColumns = 60;  // of a matrix, before older ones are put together
constexpr size_t kNewest = 30;       // that stay alone

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
    std::set<std::string> seen;
    for (const size_t run : runs_) {
      const std::string commit = place_in_order(history_.runs[run]);
      if (seen.insert(commit).second) commits.push_back(commit);
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
      return std::tuple(first_bad_.contains(b), meaning_of(y).rank, meaning_of(y.change()).rank,
                        b) <
             std::tuple(first_bad_.contains(a), meaning_of(x).rank, meaning_of(x.change()).rank, a);
    });
  }

  const History& history_;
  const std::set<size_t>& first_bad_;
  const std::vector<size_t>& runs_;
  HistoryFamily& family_;
};

}  // namespace

const Meaning& meaning_of(const HistoryRun& run) {
  const Headline& head = run.head;
  return meaning_of(run.injected()                                   ? "INJECTED"
                    : head.verdict == "PASS" && !head.remark.empty() ? "PASS ROUNDING"
                                                                     : head.verdict);
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
    if (turn.row.has("fixed_run")) continue;
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
