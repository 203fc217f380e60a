#include "cli/warehouse/run_name.h"

#include <sqlite3.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "cli/warehouse/sql_query.h"
#include "common/exit_status.h"
#include "common/near_words.h"
#include "common/shell_word.h"

namespace greta {
namespace {

constexpr size_t kMaxListed = 20;

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

/// Names and experiments most like `text`, best first; those that have nothing of it are left out.
std::vector<std::string> near_names(SQLite::Database& db, const std::string& text) {
  std::vector<std::string> names;
  Query query(db, "SELECT experiment FROM run UNION SELECT name FROM run");
  while (query.step()) names.push_back(query.text(0));
  return near_words(text, names);
}

/// Lines that list the names.
std::vector<std::string> list_of(const std::vector<std::string>& names) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < std::min(names.size(), kMaxListed); i++) lines.push_back("  " + names[i]);
  if (names.size() > kMaxListed) {
    lines.push_back("  ... and " + std::to_string(names.size() - kMaxListed) + " more");
  }
  return lines;
}

std::vector<std::string> list_of(const std::vector<Run>& runs) {
  std::vector<std::string> names;
  for (const Run& run : runs) names.push_back(run.name);
  return list_of(names);
}

/// NAME and 2 of NAME#2, as free_run_name puts them together; of any other name itself and 1.
std::pair<std::string, uint64_t> base_and_number(const std::string& name) {
  const size_t mark = name.rfind('#');
  if (mark == std::string::npos) return {name, 1};
  const char *digits = name.data() + mark + 1, *end = name.data() + name.size();
  uint64_t number = 0;
  const auto read = std::from_chars(digits, end, number);
  const bool is_repeat = read.ec == std::errc() && read.ptr == end && *digits != '0' && number > 1;
  return is_repeat ? std::pair(name.substr(0, mark), number) : std::pair(name, uint64_t{1});
}

/// NAME, NAME#2, NAME#3, ... of the run `name`, in order of number.
std::vector<Run> repeats_of(SQLite::Database& db, const std::string& name) {
  const std::string base = base_and_number(name).first;
  std::vector<Run> runs = runs_where(
      db, "(r.name = ?1 OR r.name > ?1 || '#' AND r.name < ?1 || '$')", base);  // $ follows #
  std::erase_if(runs, [&](const Run& run) { return base_and_number(run.name).first != base; });
  std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) {
    return base_and_number(a.name).second < base_and_number(b.name).second;
  });
  return runs;
}

std::vector<Run> chosen(std::vector<Run> runs, Repeats repeats) {
  if (repeats == Repeats::kAll) return runs;
  std::map<std::string, uint64_t> latest;
  for (const Run& run : runs) {
    const auto [base, number] = base_and_number(run.name);
    latest[base] = std::max(latest[base], number);
  }
  std::erase_if(runs, [&](const Run& run) {
    const auto [base, number] = base_and_number(run.name);
    return number != latest[base];
  });
  return runs;
}

}  // namespace

std::vector<Run> later_runs(SQLite::Database& db, const Run& run) {
  std::vector<Run> runs = repeats_of(db, run.name);
  std::erase_if(runs, [&](const Run& other) {
    return base_and_number(other.name).second <= base_and_number(run.name).second;
  });
  return runs;
}

std::vector<Run> resolve_runs(SQLite::Database& db, const std::string& text, Repeats repeats,
                              Naming naming) {
  if (text.empty()) throw UsageError("--run is empty: give a run, an experiment or part of a run");
  std::vector<Run> runs;
  if (naming == Naming::kExperiment) {
    runs = runs_where(db, "r.experiment = ?", text);
  } else if (repeats == Repeats::kLatest && !runs_where(db, "r.name = ?", text).empty()) {
    runs = repeats_of(db, text);
  } else {
    // a run that is named like an experiment hides none of it
    runs = runs_where(db, naming == Naming::kRun ? "r.name = ?" : "?1 IN (r.name, r.experiment)",
                      text);
  }
  if (!runs.empty()) return chosen(std::move(runs), repeats);
  runs = chosen(runs_where(db, "instr(r.name, ?) > 0", text), repeats);
  if (naming == Naming::kAny && runs.size() == 1) return runs;
  if (naming == Naming::kAny && !runs.empty()) {
    throw UsageError("'" + text + "' is part of " + std::to_string(runs.size()) +
                         " run names; give more of one:",
                     list_of(runs));
  }
  std::vector<std::string> near = near_names(db, text);
  if (naming == Naming::kRun && !runs_where(db, "r.experiment = ?", text).empty()) {
    throw UsageError("no run is called '" + text + "'; --experiment " + shell_word(text) +
                     " means all runs of that experiment");
  }
  if (naming == Naming::kRun && !runs.empty()) {
    throw UsageError("no run is called '" + text + "'; here a name has to be exact:",
                     list_of(runs));
  }
  std::string file = db.getFilename();  // "" of a copy
  if (file.starts_with("file:")) file = sqlite3_db_filename(db.getHandle(), "main");
  const char* what = naming == Naming::kRun          ? "run"
                     : naming == Naming::kExperiment ? "experiment"
                                                     : "run or experiment";
  throw UsageError(std::string("no ") + what + " '" + text + "'" +
                       (file.empty() ? "" : " in " + file) +
                       (near.empty() ? "; `greta-db runs` lists them" : "; perhaps:"),
                   list_of(near));
}

Run resolve_run(SQLite::Database& db, const std::string& text, Naming naming) {
  std::vector<Run> runs = runs_where(db, "r.name = ?", text);
  if (runs.empty()) runs = resolve_runs(db, text, Repeats::kAll, naming);
  if (runs.size() > 1) {
    throw UsageError(
        "'" + text + "' means " + std::to_string(runs.size()) + " runs; name one of them:",
        list_of(runs));
  }
  return runs.front();
}

std::vector<Run> resolve_runs_or_all(SQLite::Database& db, const std::string& text,
                                     Repeats repeats) {
  if (!text.empty()) return resolve_runs(db, text, repeats);
  return chosen(runs_where(db, "?", int64_t{1}), repeats);
}

}  // namespace greta
