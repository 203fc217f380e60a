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

/// Runs, each once.
class Chosen {
 public:
  void add(std::vector<Published> more) {
    for (Published& one : more) {
      if (known_.insert(one.identity).second) runs_.push_back(std::move(one));
    }
  }
  std::vector<Published>& runs() { return runs_; }

 private:
  std::vector<Published> runs_;
  std::set<std::string> known_;
};

std::vector<Published> chosen(FleetServer& server, const Question& question) {
  Chosen all;
  for (const std::string& run : question.runs) all.add(published_runs(server, run));
  if (question.runs.empty()) {
    PublishedFilter filter;
    filter.experiment = question.experiment;
    filter.mode = question.mode;
    filter.date = question.date;
    filter.commit = question.commit;
    filter.since = question.since;
    all.add(published(server, filter));
  }
  const bool is_part = !question.runs.empty() || !question.since.empty();
  if (!question.compared || !is_part) return std::move(all.runs());
  // whole lineages, as a baseline may lie before --since: a lineage is of one experiment and mode
  std::set<std::pair<std::string, std::string>> kinds;
  for (const Published& one : all.runs()) kinds.emplace(one.experiment, one.mode);
  for (const auto& [experiment, mode] : kinds) {
    PublishedFilter lineage;
    lineage.experiment = experiment;
    lineage.mode = mode;
    all.add(published(server, lineage));
  }
  return std::move(all.runs());
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
              "SELECT 1 FROM verdict WHERE run_id = ? AND level = 'run'"
              " AND (strict_verdict <> 'PASS' OR numeric_verdict <> 'PASS')");
  for (const int64_t id : runs) {
    query.bind(1, id);
    if (query.step()) ids.push_back(id);
    query.reset();
  }
  return ids;
}

/// With the baselines of these, where runs are compared.
std::vector<int64_t> with_baselines(SQLite::Database& db, std::vector<int64_t> runs,
                                    const Question& question) {
  if (!question.compared) return runs;
  Query query(db, "SELECT baseline_id FROM lineage WHERE run_id = ? AND baseline_id IS NOT NULL");
  std::vector<int64_t> all = runs;
  for (const int64_t id : runs) {
    query.bind(1, id);
    if (query.step()) all.push_back(query.integer(0));
    query.reset();
  }
  return all;
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

std::vector<Published> published_runs(FleetServer& server, const std::string& text) {
  // a run and those of its name with a number, else an experiment, else part of a name
  Chosen found;
  found.add(published_like(server, {}, {text}));
  const bool is_name = std::any_of(found.runs().begin(), found.runs().end(),
                                   [&](const Published& one) { return one.run == text; });
  if (is_name) return std::move(found.runs());
  if (const size_t mark = text.rfind('#'); mark != std::string::npos)
    found.add(published_like(server, {}, {text.substr(0, mark)}));
  PublishedFilter experiment;
  experiment.experiment = text;
  found.add(published(server, experiment));
  PublishedFilter part;
  part.part_of_name = text;
  found.add(published(server, part));
  return std::move(found.runs());
}

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
  std::sort(runs.begin(), runs.end(), [](const Published& a, const Published& b) {
    return std::tie(a.origin, a.run, a.identity) < std::tie(b.origin, b.run, b.identity);
  });
  fleet_ = std::make_unique<FleetFile>(*server_);
  fleet_->add(std::move(runs), question.everything ? Records::kAll : Records::kVerdict);
  if (question.compared || question.everything) fleet_->add_commits();
  if (question.drift) fleet_->add_drift();
  SQLite::Database& here = fleet_->db();
  if (question.rows) add_rows(*fleet_, with_baselines(here, named(here, question), question));
  if (question.failing_rows) {
    const std::vector<int64_t> ids = named(here, question);
    add_rows(*fleet_, failing(here, ids));
    fleet_->check_rows_of(with_baselines(here, ids, question));
  }
  if (question.compared) fleet_->compare_with_baselines();
  if (question.changed_rows) {
    add_rows(*fleet_, ids_of(here,
                             "SELECT m.run_id FROM lineage_member m WHERE m.lineage IN (SELECT"
                             " c.lineage FROM change c WHERE c.change IN ('BROKEN', 'CHANGED'))"));
  }
  if (question.prepare) question.prepare(here);
  fleet_->close();
}

AskedDatabase::~AskedDatabase() = default;

}  // namespace greta
