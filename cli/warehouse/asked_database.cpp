#include "cli/warehouse/asked_database.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "cli/warehouse/fleet.h"
#include "cli/warehouse/sql_query.h"
#include "common/exit_status.h"
#include "db/clickhouse/address.h"
#include "db/database.h"

namespace greta {
namespace {

/// What is fetched for one question lies on this machine's disk.
constexpr size_t kMostRunsFetched = 200'000;
constexpr uint64_t kMostRowsFetched = 20'000'000;

/// Runs of a JSON array whose drift a page of a history draws: as History reads them.
constexpr const char* kNewestDrifting =
    "SELECT run_id FROM (SELECT h.run_id AS run_id, row_number() OVER newest AS nth,"
    " sum(h.pairs + 2 * (SELECT sum(c.fail) FROM verdict c WHERE c.run_id = h.run_id AND c.level ="
    " 'cause')) OVER newest AS work FROM json_each(?1) j JOIN history h ON h.run_id = j.value"
    " WHERE EXISTS (SELECT 1 FROM verdict c WHERE c.run_id = h.run_id AND c.level = 'cause' AND"
    " c.fail > 0) WINDOW newest AS (ORDER BY h.date DESC, h.started_at DESC, h.experiment DESC,"
    " length(h.run) DESC, h.run DESC)) WHERE work <= 420000 OR nth = 1";

std::vector<Published> chosen(FleetServer& server, const Question& question) {
  std::map<std::string, Published> by_identity;
  const auto add = [&](std::vector<Published> more) {
    for (Published& one : more) by_identity.try_emplace(one.identity, std::move(one));
  };
  for (const std::string& run : question.runs) add(published_named(server, run));
  if (question.runs.empty()) add(published(server, question.filter));
  if (question.compared && (!question.runs.empty() || !question.filter.since.empty())) {
    // whole lineages, as a baseline may lie before --since: a lineage is of one experiment and mode
    std::set<std::pair<std::string, std::string>> kinds;
    for (const auto& [identity, one] : by_identity) kinds.emplace(one.experiment, one.mode);
    for (const auto& [experiment, mode] : kinds)
      add(published(server, {.experiment = experiment, .mode = mode}));
  }
  std::vector<Published> runs;
  for (auto& [identity, one] : by_identity) runs.push_back(std::move(one));
  std::sort(runs.begin(), runs.end());
  return runs;
}

std::vector<int64_t> named(SQLite::Database& db, const Question& question) {
  std::vector<int64_t> ids;
  const auto add = [&](const std::vector<Run>& runs) {
    for (const Run& run : runs) ids.push_back(run.id);
  };
  if (question.runs.empty()) add(resolve_runs_or_all(db, "", question.repeats));
  for (const std::string& text : question.runs) add(resolve_runs(db, text, question.repeats));
  return ids;
}

/// Ids that a query finds for runs; ?1 is a JSON array of these.
std::vector<int64_t> ids_of(SQLite::Database& db, const std::string& sql,
                            const std::vector<int64_t>& runs = {}) {
  std::string list;
  for (const int64_t id : runs) list += (list.empty() ? "" : ",") + std::to_string(id);
  std::vector<int64_t> ids;
  Query query(db, sql);
  if (query.parameters() > 0) query.bind(1, "[" + list + "]");
  while (query.step()) ids.push_back(query.integer(0));
  return ids;
}

/// With the baselines of these, where runs are compared.
std::vector<int64_t> with_baselines(SQLite::Database& db, std::vector<int64_t> runs,
                                    const Question& question) {
  if (!question.compared) return runs;
  const std::vector<int64_t> baselines =
      ids_of(db,
             "SELECT b.baseline_id FROM json_each(?1) j JOIN lineage b ON b.run_id = j.value"
             " WHERE b.baseline_id IS NOT NULL",
             runs);
  runs.insert(runs.end(), baselines.begin(), baselines.end());
  return runs;
}

/// Throws UsageError where a question would bring more than a machine should hold.
void add_rows(FleetFile& fleet, const std::vector<int64_t>& runs) {
  const std::set<int64_t> wanted(runs.begin(), runs.end());
  uint64_t rows = 0;
  for (size_t i = 0; i < fleet.runs().size(); ++i) {
    if (wanted.contains(fleet.run_id(i))) rows += fleet.runs()[i].trace_rows();
  }
  if (rows > kMostRowsFetched) {
    throw UsageError("the answer needs " + std::to_string(rows) + " trace rows of " +
                     std::to_string(runs.size()) +
                     " runs here: name fewer runs (--run, --experiment)");
  }
  fleet.add_rows(runs);
}

}  // namespace

AskedDatabase::AskedDatabase(const std::string& database, const Question& question) {
  if (!clickhouse::is_address(database)) {
    file_ = std::make_unique<SQLite::Database>(open_for_reading(database, question.prepare));
    return;
  }
  server_ = open_fleet(database);
  std::vector<Published> runs = chosen(*server_, question);
  if (runs.size() > kMostRunsFetched) {
    throw UsageError(std::to_string(runs.size()) + " runs at " + server_->where() +
                     ": name some of them (--run, --experiment, --mode)");
  }
  fleet_ = std::make_unique<FleetFile>(*server_);
  fleet_->add(std::move(runs), question.everything ? Records::kAll : Records::kVerdict);
  if (question.compared || question.everything) fleet_->add_commits();
  SQLite::Database& here = fleet_->db();
  if (question.rows) add_rows(*fleet_, with_baselines(here, named(here, question), question));
  if (question.drift) add_rows(*fleet_, ids_of(here, kNewestDrifting, named(here, question)));
  if (question.failing_rows) {
    const std::vector<int64_t> ids = named(here, question);
    add_rows(*fleet_, ids_of(here,
                             "SELECT v.run_id FROM json_each(?1) j JOIN verdict v ON v.run_id ="
                             " j.value WHERE v.level = 'run' AND (v.strict_verdict <> 'PASS' OR"
                             " v.numeric_verdict <> 'PASS')",
                             ids));
    fleet_->check_rows_of(with_baselines(here, ids, question));
  }
  if (question.compared) fleet_->compare_with_baselines();
  if (question.changed_rows) {
    add_rows(*fleet_, ids_of(here,
                             "SELECT m.run_id FROM lineage_member m WHERE m.lineage IN (SELECT"
                             " c.lineage FROM change c WHERE c.change IN ('BROKEN', 'CHANGED'))"));
  }
  if (question.prepare) question.prepare(here);
  here.exec("PRAGMA query_only = ON");
}

AskedDatabase::~AskedDatabase() = default;

}  // namespace greta
