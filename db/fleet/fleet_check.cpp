#include "db/fleet/fleet_check.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <set>
#include <thread>

#include "common/stop_signal.h"
#include "db/clickhouse/quote.h"
#include "db/database.h"
#include "db/fleet/fleet_file.h"
#include "db/schema.h"
#include "db/statements.h"
#include "db/with_views.h"

namespace greta {
namespace {

using clickhouse::RowReader;

constexpr uint64_t kRowsAtOnce = 2'000'000;
constexpr std::chrono::milliseconds kLook{100};
constexpr std::chrono::minutes kPatience{30};

std::string text_of(SQLite::Statement& row) {
  std::string text;
  for (int i = 0; i < row.getColumnCount(); ++i) {
    if (i > 0) text += '|';
    if (!row.getColumn(i).isNull()) text += row.getColumn(i).getString();
  }
  return text;
}

/// All that is kept of a run's verdict, row by row.
std::multiset<std::string> verdict_rows(Statements& statements, int64_t run_id) {
  std::multiset<std::string> rows;
  const auto add = [&](const std::string& what, const char* sql) {
    SQLite::Statement& query = statements(sql, run_id);
    while (query.executeStep()) rows.insert(what + text_of(query));
  };
  static const std::string verdict = with_views(
      "SELECT v.verdict, v.numeric_verdict FROM kept_verdict_part v WHERE v.run_id = ? AND"
      " v.prompt_id = 0");
  add("verdict ", verdict.c_str());
  add("part ", "SELECT * FROM kept_verdict WHERE run_id = ?");
  add("tally ", "SELECT * FROM kept_tally WHERE run_id = ?");
  return rows;
}

/// Each of one dictionary, as what its tolerances refute is worked out here, and each of no more
/// than a database should hold: files that pushed in turns make no more of them than one after the
/// other.
std::vector<std::vector<Published>> batches_of(const std::vector<Published>& runs) {
  struct Open {
    size_t batch = 0;
    uint64_t rows = 0;
  };
  std::vector<std::vector<Published>> batches;
  std::map<uint64_t, Open> open;  // by dictionary
  for (const Published& run : runs) {
    const auto [at, is_new] = open.try_emplace(run.rules);
    Open& own = at->second;
    if (is_new || batches[own.batch].size() == kMostRunsAsked || own.rows >= kRowsAtOnce) {
      own = {batches.size(), 0};
      batches.emplace_back();
    }
    batches[own.batch].push_back(run);
    own.rows += run.rows.n;
  }
  return batches;
}

void compare(const Published& run, const std::multiset<std::string>& pushed,
             const std::multiset<std::string>& worked_out, FleetCheckSummary& summary) {
  if (pushed == worked_out) return;
  const auto lacking = [](const auto& all, const auto& in) {
    std::vector<std::string> rows;
    std::set_difference(all.begin(), all.end(), in.begin(), in.end(), std::back_inserter(rows));
    return rows.empty() ? std::string() : rows.back();  // the verdict before what it follows from
  };
  summary.differences.push_back(
      {run.run, lacking(pushed, worked_out), lacking(worked_out, pushed)});
}

}  // namespace

FleetCheckSummary check_fleet(FleetServer& server, const std::vector<Published>& runs,
                              const std::function<void(int64_t)>& progress) {
  FleetCheckSummary summary;
  for (const std::vector<Published>& batch : batches_of(runs)) {
    FleetFile file(server);
    file.add(batch, Records::kAll);
    std::vector<int64_t> ids;
    std::vector<std::multiset<std::string>> pushed;
    Statements statements(file.db());
    for (size_t i = 0; i < batch.size(); ++i) {
      ids.push_back(file.run_id(i));
      pushed.push_back(verdict_rows(statements, ids.back()));
      // what was published of it is what came with it
      const std::string told = "verdict " + batch[i].verdict + "|" + batch[i].numeric_verdict;
      if (!pushed.back().contains(told)) pushed.back().insert("published as " + told);
    }
    file.judge(ids);
    for (size_t i = 0; i < batch.size(); ++i)
      compare(batch[i], pushed[i], verdict_rows(statements, ids[i]), summary);
    summary.runs += static_cast<int64_t>(batch.size());
    for (const Published& run : batch) summary.rows += static_cast<int64_t>(run.rows.n);
    if (progress) progress(summary.runs);
    throw_if_stopped();
  }
  return summary;
}

namespace {

constexpr const char* kTablesOfPushes[] = {"trace_row", "difference", "record"};

/// Pushes of a table that are wanted by nobody and older than that, with their rows.
uint64_t find_unwanted(FleetServer& server, const std::string& table, int64_t hours,
                       std::set<uint64_t>& pushes) {
  uint64_t rows = 0;
  server.select(
      "SELECT push, toUInt64(count()) AS n FROM " + server.table(table) + " WHERE push > " +
          std::to_string(kLastSharedPush) + " AND push NOT IN (SELECT push FROM " +
          server.table("published") +
          " WHERE (identity, version, push) IN (SELECT identity, tupleElement(last, 1),"
          " tupleElement(last, 2) FROM (SELECT identity, max((version, push)) AS last FROM " +
          server.table("published") +
          " GROUP BY identity))) AND push NOT IN (SELECT push FROM rules) GROUP BY push HAVING"
          // as numbers with a sign: by a clock in 1970 a day ago would be in a hundred years
          " toInt64(toUInt32(now())) - toInt64(toUInt32(max(pushed_at))) >= " +
          std::to_string(hours * 3600),
      "push, n",
      [&](RowReader& row) {
        const uint64_t push = row.u64();
        rows += row.u64();
        pushes.insert(push);
      },
      {push_table("rules", wanted_rules(server))});
  return rows;
}

/// Waits until no deletion is under way on any replica.
void wait_for_mutations(FleetServer& server) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    uint64_t open = 0;
    server.select(
        "SELECT toUInt64(count()) AS n FROM system.mutations WHERE is_done = 0 AND"
        " database = " +
            clickhouse::quote_text(server.client().address().database),
        "n", [&](RowReader& row) { open += row.u64(); });
    if (open == 0) return;
    if (std::chrono::steady_clock::now() > end)
      throw clickhouse::Error(server.where() + " is still deleting: look at system.mutations");
    throw_if_stopped();
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace

SweptRows sweep_fleet(FleetServer& server, int64_t hours, bool remove) {
  SweptRows swept;
  std::set<uint64_t> pushes;
  swept.rows = find_unwanted(server, "trace_row", hours, pushes);
  swept.differences = find_unwanted(server, "difference", hours, pushes);
  swept.records = find_unwanted(server, "record", hours, pushes);
  swept.pushes.assign(pushes.begin(), pushes.end());
  if (!remove || pushes.empty()) return swept;
  constexpr size_t kAtOnce = 1000;
  for (size_t at = 0; at < swept.pushes.size(); at += kAtOnce) {
    std::string list;
    for (size_t i = at; i < std::min(at + kAtOnce, swept.pushes.size()); ++i)
      list += (list.empty() ? "" : ", ") + std::to_string(swept.pushes[i]);
    for (const char* table : kTablesOfPushes)
      server.alter(table, "DELETE WHERE push IN (" + list + ")");
  }
  wait_for_mutations(server);
  return swept;
}

}  // namespace greta
