#include "cli/warehouse/run_name.h"

#include <algorithm>
#include <numeric>

#include "cli/warehouse/sql_query.h"
#include "common/exit_status.h"
#include "common/utf8.h"

namespace greta {
namespace {

constexpr size_t kMaxListed = 20;
constexpr size_t kMaxNear = 5;

/// Runs that meet a condition with one ?. A level above other runs counts only with evidence of its
/// own, as in run_verdict.
std::vector<Run> runs_where(SQLite::Database& db, std::string_view condition, const Value& value) {
  Query query(db, "SELECT r.id, r.name FROM run r WHERE " + std::string(condition) +
                      " AND NOT EXISTS (SELECT 1 FROM directory_level l WHERE l.run_id = r.id)"
                      " ORDER BY r.id");
  query.bind(1, value);
  std::vector<Run> runs;
  while (query.step()) runs.push_back({query.integer(0), query.text(1)});
  return runs;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); i++) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); j++) {
      size_t change = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

std::string lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return text;
}

/// Names and experiments most like `text`, best first; those that have nothing of it are left out.
std::vector<std::string> near_names(SQLite::Database& db, const std::string& text) {
  std::vector<std::pair<size_t, std::string>> ranked;
  std::string wanted = lower(text.substr(0, 200));
  Query query(db, "SELECT experiment FROM run UNION SELECT name FROM run");
  while (query.step()) {
    std::string name = query.text(0);
    std::string candidate = lower(name.substr(0, 200));
    bool contains = candidate.find(wanted) != std::string::npos;
    size_t distance = contains ? 0 : edit_distance(wanted, candidate);
    if (distance <= std::max<size_t>(2, wanted.size() / 3)) ranked.emplace_back(distance, name);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> names;
  for (auto& [distance, name] : ranked) {
    if (names.size() < kMaxNear) names.push_back(name);
  }
  return names;
}

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMaxListed); i++) {
    text += "\n  " + utf8::printable(names[i]);
  }
  if (names.size() > kMaxListed) {
    text += "\n  ... and " + std::to_string(names.size() - kMaxListed) + " more";
  }
  return text;
}

std::string list_of(const std::vector<Run>& runs) {
  std::vector<std::string> names;
  for (const Run& run : runs) names.push_back(run.name);
  return list_of(names);
}

}  // namespace

std::vector<Run> resolve_runs(SQLite::Database& db, const std::string& text) {
  if (text.empty()) throw UsageError("--run is empty: give a run, an experiment or part of a run");
  for (const char* condition : {"r.name = ?", "r.experiment = ?"}) {
    std::vector<Run> runs = runs_where(db, condition, text);
    if (!runs.empty()) return runs;
  }
  std::vector<Run> runs = runs_where(db, "instr(r.name, ?) > 0", text);
  if (runs.size() == 1) return runs;
  if (!runs.empty()) {
    throw UsageError("'" + utf8::printable(text) + "' is part of " + std::to_string(runs.size()) +
                     " run names; give more of one:" + list_of(runs));
  }
  std::vector<std::string> near = near_names(db, text);
  throw UsageError(
      "no run or experiment '" + utf8::printable(text) + "' in " + db.getFilename() +
      (near.empty() ? std::string("; `greta-db runs` lists them") : "; perhaps:" + list_of(near)));
}

Run resolve_run(SQLite::Database& db, const std::string& text) {
  std::vector<Run> runs = resolve_runs(db, text);
  if (runs.size() > 1) {
    throw UsageError("'" + utf8::printable(text) + "' is an experiment of " +
                     std::to_string(runs.size()) + " runs; name one of them:" + list_of(runs));
  }
  return runs.front();
}

std::vector<Run> resolve_runs_or_all(SQLite::Database& db, const std::string& text) {
  if (!text.empty()) return resolve_runs(db, text);
  return runs_where(db, "?", int64_t{1});
}

}  // namespace greta
