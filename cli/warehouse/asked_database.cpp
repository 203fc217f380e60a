#include "cli/warehouse/asked_database.h"

#include <algorithm>
#include <set>
#include <tuple>
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
/// Up to so many rows are fetched, and judged here: a server takes longer to prepare the query of
/// verdicts, once for every shard, than to send them.
constexpr uint64_t kMostRowsJudgedHere = 50'000;

void add_new(std::vector<Published>& all, std::vector<Published> more) {
  for (Published& one : more) {
    const bool is_known = std::any_of(all.begin(), all.end(), [&](const Published& known) {
      return known.identity == one.identity;
    });
    if (!is_known) all.push_back(std::move(one));
  }
}

/// Whole lineages: what a run is held against may lie before --since. A lineage is of one
/// experiment and mode.
std::vector<Published> whole_lineages(FleetServer& server, const Question& question) {
  PublishedFilter filter;
  filter.experiment = question.experiment;
  filter.mode = question.mode;
  if (question.since.empty() && question.runs.empty()) return published(server, filter);
  filter.since = question.since;
  std::vector<Published> some;
  if (question.runs.empty()) {
    some = published(server, filter);
  } else {
    for (const std::string& run : question.runs) add_new(some, published_runs(server, run));
  }
  std::set<std::pair<std::string, std::string>> kinds;
  for (const Published& one : some) kinds.emplace(one.experiment, one.mode);
  std::vector<Published> all = some;
  std::set<std::string> known;
  for (const Published& one : some) known.insert(one.identity);
  for (const auto& [experiment, mode] : kinds) {
    PublishedFilter lineage;
    lineage.experiment = experiment;
    lineage.mode = mode;
    for (Published& one : published(server, lineage)) {
      if (known.insert(one.identity).second) all.push_back(std::move(one));
    }
  }
  return all;
}

std::vector<Published> chosen(FleetServer& server, const Question& question) {
  if (question.compared) return whole_lineages(server, question);
  std::vector<Published> all;
  if (question.runs.empty()) {
    PublishedFilter filter;
    filter.experiment = question.experiment;
    filter.mode = question.mode;
    filter.date = question.date;
    filter.commit = question.commit;
    filter.since = question.since;
    all = published(server, filter);
  }
  for (const std::string& run : question.runs) add_new(all, published_runs(server, run));
  return all;
}

std::vector<int64_t> named(SQLite::Database& db, const Question& question) {
  std::vector<int64_t> ids;
  if (question.runs.empty()) {
    for (const Run& run : resolve_runs_or_all(db, "", question.repeats)) ids.push_back(run.id);
  }
  for (const std::string& text : question.runs) {
    for (const Run& run : resolve_runs(db, text, question.repeats)) ids.push_back(run.id);
  }
  return ids;
}

std::vector<int64_t> ids_of(SQLite::Database& db, const std::string& sql) {
  std::vector<int64_t> ids;
  Query query(db, sql);
  while (query.step()) ids.push_back(query.integer(0));
  return ids;
}

std::vector<int64_t> failing(SQLite::Database& db, const std::vector<int64_t>& runs) {
  std::vector<int64_t> ids;
  Query query(db,
              "SELECT 1 FROM kept_verdict WHERE run_id = ? AND prompt_id = 0 AND (fail > 0 OR"
              " missing > 0 OR divergent_cause IS NOT NULL)");
  for (const int64_t id : runs) {
    query.bind(1, id);
    if (query.step()) ids.push_back(id);
    query.reset();
  }
  return ids;
}

/// What these are held against, too, where that is asked for.
std::vector<int64_t> with_baselines(SQLite::Database& db, std::vector<int64_t> runs,
                                    const Question& question) {
  if (!question.compared) return runs;
  Query query(db,
              "SELECT baseline_id FROM run_baseline WHERE run_id = ? AND baseline_id IS NOT NULL");
  std::vector<int64_t> all = runs;
  for (const int64_t id : runs) {
    query.bind(1, id);
    if (query.step()) all.push_back(query.integer(0));
    query.reset();
  }
  return all;
}

uint64_t rows_of(const FleetFile& fleet, const std::vector<int64_t>& runs) {
  const std::set<int64_t> wanted(runs.begin(), runs.end());
  uint64_t rows = 0;
  for (size_t i = 0; i < fleet.runs().size(); ++i) {
    if (wanted.contains(fleet.run_id(i))) rows += fleet.runs()[i].rows.n;
  }
  return rows;
}

/// Throws UsageError where a question would bring more than a machine should hold.
void add_rows(FleetFile& fleet, const std::vector<int64_t>& runs) {
  if (const uint64_t rows = rows_of(fleet, runs); rows > kMostRowsFetched) {
    throw UsageError("the answer needs " + std::to_string(rows) + " trace rows of " +
                     std::to_string(runs.size()) +
                     " runs here: name fewer runs (--run, --experiment)");
  }
  fleet.add_rows(runs);
}

void judge(FleetFile& fleet, const std::vector<int64_t>& runs) {
  if (rows_of(fleet, runs) <= kMostRowsJudgedHere) {
    fleet.judge_here(runs);
  } else {
    fleet.judge(runs);
  }
}

}  // namespace

std::vector<Published> published_runs(FleetServer& server, const std::string& text) {
  // a run and those of its name with a number, else an experiment, else part of a name
  std::vector<Published> found = published_like(server, {}, {text});
  const bool is_name = std::any_of(found.begin(), found.end(),
                                   [&](const Published& one) { return one.run == text; });
  if (is_name) return found;
  if (const size_t mark = text.rfind('#'); mark != std::string::npos)
    add_new(found, published_like(server, {}, {text.substr(0, mark)}));
  PublishedFilter experiment;
  experiment.experiment = text;
  add_new(found, published(server, experiment));
  PublishedFilter part;
  part.part_of_name = text;
  add_new(found, published(server, part));
  return found;
}

AskedDatabase::AskedDatabase(const std::string& database, const Question& question) {
  if (!clickhouse::is_address(database)) {
    file_ = std::make_unique<SQLite::Database>(open_for_reading(database));
    return;
  }
  server_ = open_fleet(database);
  std::vector<Published> runs = chosen(*server_, question);
  if (runs.size() > kMostRunsFetched) {
    throw UsageError(std::to_string(runs.size()) + " runs at " + server_->where() +
                     ": name some of them (--run, --experiment, --mode)");
  }
  std::sort(runs.begin(), runs.end(), [](const Published& a, const Published& b) {
    return std::tie(a.origin, a.run, a.identity) < std::tie(b.origin, b.run, b.identity);
  });
  fleet_ = std::make_unique<FleetFile>(*server_);
  const bool all = question.everything || question.judged;
  fleet_->add(std::move(runs), all ? Records::kAll : Records::kVerdict);
  if (question.compared || question.everything) fleet_->add_commits();
  SQLite::Database& here = fleet_->db();
  if (question.judged) judge(*fleet_, named(here, question));
  if (question.rows) add_rows(*fleet_, with_baselines(here, named(here, question), question));
  if (question.failing_rows) add_rows(*fleet_, failing(here, named(here, question)));
  if (question.compared) {
    fleet_->compare_with_baselines();
    if (question.changed_rows) {
      add_rows(*fleet_,
               ids_of(here,
                      "SELECT m.run_id FROM lineage_member m WHERE m.lineage IN (SELECT c.lineage"
                      " FROM kept_change c WHERE c.change IN ('BROKEN', 'CHANGED'))"));
    }
  }
  fleet_->close();
}

AskedDatabase::~AskedDatabase() = default;

}  // namespace greta
