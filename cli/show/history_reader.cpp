#include <algorithm>
#include <cmath>

#include "cli/show/history.h"

namespace greta {
namespace {

/// What the view drift may look at for one page: pairs, some 4 microseconds each; one that differs
/// takes as long as three.
constexpr int64_t kMostDriftWork = 420'000;

Value value_in(const Cell& cell) {
  switch (cell.type) {
    case Cell::Type::kNull:
      return nullptr;
    case Cell::Type::kInteger:
      return cell.integer;
    case Cell::Type::kReal:
      return cell.real;
    default:
      return std::string(cell.text);
  }
}

std::optional<double> real_in(const Cell& cell) {
  if (cell.type == Cell::Type::kReal) return cell.real;
  if (cell.type == Cell::Type::kInteger) return static_cast<double>(cell.integer);
  return std::nullopt;
}
std::optional<int64_t> integer_in(const Cell& cell) {
  return cell.type == Cell::Type::kInteger ? std::optional(cell.integer) : std::nullopt;
}

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
                        " started_at, dtype, lineage, run_id, commit_ord FROM (SELECT v.*,"
                        " c.change AS change, c.baseline AS baseline, c.layer AS changed_layer,"
                        " c.tensor AS changed_tensor, c.why_not AS why_not, h.injected AS injected,"
                        " h.started_at AS started_at, h.dtype AS dtype, h.lineage AS lineage,"
                        " l.commit_ord AS commit_ord FROM run_verdict v"
                        " JOIN history h ON h.run_id = v.run_id"
                        " LEFT JOIN change c ON c.run_id = h.run_id"
                        " LEFT JOIN lineage l ON l.run_id = h.run_id)" +
                        where_.sql() + std::string(kHistoryOrder));
    where_.bind(rows);
    const std::vector<std::string> columns = names_of(kHistoryColumns);
    while (rows.step()) {
      const RunVerdict verdict(rows);
      const Headline head(verdict);
      HistoryRun run;
      run.id = verdict.number("run_id");
      for (const std::string& column : columns) run.row[column] = value_in(verdict.cell(column));
      run.verdict = head.verdict;
      run.remark = head.remark;
      run.fail_kind = fail_kind(head);
      run.fail = head.fail;
      run.ord = integer_in(verdict.cell("commit_ord"));
      run.injected = verdict.number("injected") != 0;
      run.change = verdict.text("change");
      index_[run.id] = history_.runs.size();
      history_.runs.push_back(std::move(run));
    }
  }

  void turns() {
    Query rows(db_, "SELECT " + std::string(kRegressionColumns) +
                        ", first_bad_id FROM regression ORDER BY first_bad_date, first_bad");
    const std::vector<std::string> names = rows.column_names();
    while (rows.step()) {
      const int last = rows.columns() - 1;
      const auto run = index_.find(rows.integer(last));
      if (run == index_.end()) continue;
      HistoryTurn turn;
      turn.first_bad = run->second;
      for (int i = 0; i < last; ++i)
        turn.row[names[static_cast<size_t>(i)]] = value_in(rows.cell(i));
      history_.turns.push_back(std::move(turn));
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
      work += std::get<int64_t>(one.row.at("pairs")) + 2 * differ;
      if (work > kMostDriftWork && history_.measured > 0) break;
      ++history_.measured;
      history_.first_measured = run;
      history_.drift.erase(history_.drift.lower_bound({run, 0}),
                           history_.drift.lower_bound({run + 1, 0}));
      rows.reset();
      rows.bind(1, one.id);
      while (rows.step()) {
        HistoryDrift& drift = drift_of(run, rows.text(0));
        drift = counts(rows, 1);
        drift.read = true;
        drift.rel_l2 = real_in(rows.cell(5));
        drift.tolerance = real_in(rows.cell(6));
        drift.layer = integer_in(rows.cell(7));
        drift.pos_id = integer_in(rows.cell(8));
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
         " c.tensor AS changed_tensor, c.why_not AS why_not FROM history h LEFT JOIN change c"
         " ON c.run_id = h.run_id)";
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
  const auto found = pages.find(run.id);
  return found == pages.end() ? "" : found->second;
}

std::string text_of(const NamedRow& row, std::string_view column) {
  const auto found = row.find(column);
  if (found == row.end()) return "";
  if (const auto* text = std::get_if<std::string>(&found->second)) return *text;
  if (const auto* number = std::get_if<int64_t>(&found->second)) return std::to_string(*number);
  return "";
}

bool has(const NamedRow& row, std::string_view column) {
  const auto found = row.find(column);
  return found != row.end() && !std::holds_alternative<std::nullptr_t>(found->second);
}

std::optional<double> HistoryDrift::ratio() const {
  if (!rel_l2 || !tolerance || *tolerance <= 0 || !std::isfinite(*rel_l2)) return std::nullopt;
  return *rel_l2 / *tolerance;
}

History read_history(SQLite::Database& db, const Where& where) {
  return HistoryReader(db, where).read();
}

}  // namespace greta
