#include "db/fleet/fleet_check.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
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

/// Judges runs again that have one dictionary.
void judge_again(FleetServer& server, const std::vector<Published>& runs,
                 FleetCheckSummary& summary) {
  FleetFile file(server);
  file.add(runs, Records::kAll);
  std::vector<int64_t> ids;
  for (size_t i = 0; i < runs.size(); ++i) ids.push_back(file.run_id(i));
  file.add_rows(ids);
  const std::string columns = columns_of(file.db(), "verdict");
  // rows that one verdict has and the other lacks, those of the run last
  SQLite::Statement differing(
      file.db(), "WITH kept AS (SELECT " + columns + " FROM verdict WHERE run_id = ?1), now AS" +
                     " MATERIALIZED (SELECT " + columns + " FROM verdict_now WHERE run_id = ?1)" +
                     " SELECT 1 AS is_kept, * FROM (SELECT * FROM kept EXCEPT SELECT * FROM now)"
                     " UNION ALL"
                     " SELECT 0, * FROM (SELECT * FROM now EXCEPT SELECT * FROM kept)"
                     " ORDER BY level");
  for (size_t i = 0; i < runs.size(); ++i) {
    throw_if_stopped();
    ++summary.judged;
    FleetDifference difference{runs[i].run, "", ""};
    bool is_other = false;
    differing.reset();
    differing.bind(1, ids[i]);
    for (; differing.executeStep(); is_other = true) {
      std::string& row =
          differing.getColumn(0).getInt() == 1 ? difference.pushed : difference.judged;
      row.clear();
      for (int c = 1; c < differing.getColumnCount(); ++c)
        row += (c > 1 ? "|" : "") + differing.getColumn(c).getString();
    }
    if (is_other) summary.differences.push_back(difference);
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
    check_rows(server, asked);
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

/// Rows of pushes that nothing asks for and that are older than that.
FoundRows find_unwanted(FleetServer& server, int64_t hours) {
  std::vector<uint64_t> rules;
  server.select("SELECT DISTINCT rules FROM " + server.table("published"), "rules",
                [&](RowReader& row) { rules.push_back(row.u64()); });
  return find_rows(
      server, {},
      "push > " + std::to_string(kLastSharedPush) + " AND push NOT IN (SELECT push FROM " +
          server.table("published") + " WHERE " + is_last_push(server) +
          ") AND push NOT IN (SELECT push FROM rules)",
      // as numbers with a sign: by a clock in 1970 a day ago would be in a hundred years
      "toInt64(toUInt32(now())) - toInt64(toUInt32(max(pushed_at))) >= " +
          std::to_string(hours * 3600),
      push_table("rules", rules));
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
  for (const auto& [push, sums] : find_unwanted(server, hours)) {
    swept.pushes.push_back(push);
    swept.rows += sums[kTraceRowTable].n;
    swept.differences += sums[kDifferenceTable].n;
    swept.records += sums[kRecordTable].n;
  }
  if (!remove || swept.pushes.empty()) return swept;
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
