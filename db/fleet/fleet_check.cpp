#include "db/fleet/fleet_check.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "common/stop_signal.h"
#include "db/clickhouse/quote.h"
#include "db/fleet/fleet_file.h"
#include "db/schema.h"

namespace greta {
namespace {

using clickhouse::RowReader;

/// Rows after which runs that are judged again go into another database.
constexpr uint64_t kRowsAtOnce = 2'000'000;
constexpr std::chrono::milliseconds kLook{100};
constexpr std::chrono::minutes kPatience{30};

std::multiset<std::string> rows_of(SQLite::Statement& query, int64_t run_id) {
  std::multiset<std::string> rows;
  query.reset();
  query.bind(1, run_id);
  while (query.executeStep()) {
    std::string row;
    for (int i = 0; i < query.getColumnCount(); ++i) {
      if (i > 0) row += '|';
      if (!query.getColumn(i).isNull()) row += query.getColumn(i).getString();
    }
    rows.insert(row);
  }
  return rows;
}

/// A row of one that the other lacks; "" none.
std::string lacking(const std::multiset<std::string>& all, const std::multiset<std::string>& in) {
  std::vector<std::string> rows;
  std::set_difference(all.begin(), all.end(), in.begin(), in.end(), std::back_inserter(rows));
  return rows.empty() ? "" : rows.back();  // of the run: behind those of its causes and prompts
}

/// Judges runs again that have one dictionary.
void judge_again(FleetServer& server, const std::vector<Published>& runs,
                 FleetCheckSummary& summary) {
  FleetFile file(server);
  file.add(runs, Records::kAll);
  std::vector<int64_t> ids;
  for (size_t i = 0; i < runs.size(); ++i) ids.push_back(file.run_id(i));
  file.add_rows(ids);
  std::string columns = columns_of(file.db(), "verdict");
  SQLite::Statement kept(file.db(), "SELECT " + columns + " FROM verdict WHERE run_id = ?");
  SQLite::Statement now(file.db(), "SELECT " + columns + " FROM verdict_now WHERE run_id = ?");
  for (size_t i = 0; i < runs.size(); ++i) {
    throw_if_stopped();
    const auto pushed = rows_of(kept, ids[i]), judged = rows_of(now, ids[i]);
    ++summary.judged;
    if (pushed == judged) continue;
    summary.differences.push_back({runs[i].run, lacking(pushed, judged), lacking(judged, pushed)});
  }
}

/// One in `n`, from a random one on.
std::vector<Published> chosen(const std::vector<Published>& runs, int64_t n) {
  std::vector<Published> some;
  const auto step = static_cast<size_t>(n);
  if (runs.empty()) return some;
  for (size_t i = std::random_device()() % std::min(step, runs.size()); i < runs.size(); i += step)
    some.push_back(runs[i]);
  return some;
}

}  // namespace

FleetCheckSummary check_fleet(FleetServer& server, const std::vector<Published>& runs,
                              int64_t sample, const std::function<void(int64_t)>& progress) {
  FleetCheckSummary summary;
  for (const std::vector<Published>& asked : portions(runs)) {
    throw_if_stopped();
    check_all_rows(server, asked, Held::kContent);
    summary.runs += static_cast<int64_t>(asked.size());
    for (const Published& run : asked) summary.rows += static_cast<int64_t>(run.trace_rows());
    if (progress) progress(summary.runs);
  }
  // files that pushed have tolerances of their own
  std::map<uint64_t, std::vector<Published>> by_rules;
  for (const Published& run : chosen(runs, sample)) by_rules[run.rules].push_back(run);
  for (const auto& [rules, some] : by_rules) {
    for (const std::vector<Published>& asked : portions(some, kRowsAtOnce))
      judge_again(server, asked, summary);
  }
  return summary;
}

namespace {

/// Rows by table of pushes that nothing asks for and that are older than that.
std::vector<uint64_t> find_unwanted(FleetServer& server, int64_t hours,
                                    std::set<uint64_t>& pushes) {
  std::string sql;
  for (size_t i = 0; i < kFleetTables; ++i) {
    sql += (sql.empty() ? "" : " UNION ALL ") + ("SELECT push, toUInt64(" + std::to_string(i)) +
           ") AS of_table, toUInt64(count()) AS total FROM " +
           server.table(fleet_tables()[i].name) + " WHERE push > " +
           std::to_string(kLastSharedPush) + " AND push NOT IN (SELECT push FROM " +
           server.table("published") +
           " WHERE (identity, version, push) IN (SELECT identity, tupleElement(last, 1),"
           " tupleElement(last, 2) FROM (SELECT identity, max((version, push)) AS last FROM " +
           server.table("published") +
           " GROUP BY identity))) AND push NOT IN (SELECT push FROM rules) GROUP BY push HAVING"
           // as numbers with a sign: by a clock in 1970 a day ago would be in a hundred years
           " toInt64(toUInt32(now())) - toInt64(toUInt32(max(pushed_at))) >= " +
           std::to_string(hours * 3600);
  }
  std::vector<uint64_t> rows(kFleetTables);
  server.select(sql, "push, of_table, total",
                [&](RowReader& row) {
                  pushes.insert(row.u64());
                  const uint64_t table = row.u64();
                  rows.at(table) += row.u64();
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
  const std::vector<uint64_t> rows = find_unwanted(server, hours, pushes);
  swept.rows = rows[kTraceRowTable];
  swept.differences = rows[kDifferenceTable];
  swept.records = rows[kRecordTable];
  swept.pushes.assign(pushes.begin(), pushes.end());
  if (!remove || pushes.empty()) return swept;
  constexpr size_t kAtOnce = 1000;
  for (size_t at = 0; at < swept.pushes.size(); at += kAtOnce) {
    std::string list;
    for (size_t i = at; i < std::min(at + kAtOnce, swept.pushes.size()); ++i)
      list += (list.empty() ? "" : ", ") + std::to_string(swept.pushes[i]);
    for (const FleetTable& table : fleet_tables())
      server.alter(table.name, "DELETE WHERE push IN (" + list + ")");
  }
  wait_for_mutations(server);
  return swept;
}

}  // namespace greta
