#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/greta_db/commands.h"
#include "cli/warehouse/asked_database.h"
#include "cli/warehouse/fleet.h"
#include "cli/warehouse/sql_query.h"
#include "common/exit_status.h"
#include "common/temporary_folder.h"
#include "common/trouble.h"
#include "db/clickhouse/address.h"
#include "db/database.h"
#include "db/fleet/fleet_check.h"
#include "db/fleet/fleet_file.h"
#include "db/fleet/push.h"
#include "db/merge.h"

// Commands that bring runs from one database to another: merge, push, pull, and fleet.

namespace greta {
namespace {

constexpr const char* kAddress = "clickhouse://USER@HOST:PORT/DATABASE";

/// "RUN is RUN#2; ...": of runs whose name was taken.
std::string renamed_text(const std::vector<std::pair<std::string, std::string>>& names) {
  std::string text;
  for (const auto& [before, now] : names)
    text += (text.empty() ? "" : "; ") + before + " is " + now;
  return text;
}

/// Prints one row of these values, by name.
int print_record(Options& options, const std::vector<std::pair<const char*, Cell>>& record) {
  std::vector<std::string> names;
  std::vector<Cell> cells;
  for (const auto& [name, cell] : record) {
    names.emplace_back(name);
    cells.push_back(cell);
  }
  RowPrinter printer(options.out, options.format, names);
  printer.row(cells);
  printer.finish();
  return kExitDone;
}

// ---- merge

/// What the other file decides, and who runs a gate here decides alone.
std::string left_text(const std::string& other, const MergeSummary& summary) {
  std::string what;
  if (summary.pins_left > 0) what = counted(summary.pins_left, "pinned baseline");
  if (summary.waivers_left > 0) {
    what += (what.empty() ? "" : " and ") + counted(summary.waivers_left, "waiver");
  }
  return what + " of " + other +
         " did not come along: `greta-db baseline set` and `greta-db waive` decide for this file";
}

int merge_files(Options& options, const std::vector<std::string>& others) {
  for (const std::string& other : others) open_unchanged(other);  // before anything is created
  SQLite::Database db = open_for_writing(options.database);
  RowPrinter printer(options.out, options.format,
                     {"file", "new_runs", "new_sources", "known_sources", "rows", "duplicates",
                      "conflicts", "renamed"});
  std::vector<std::string> left;
  for (const std::string& other : others) {
    MergeSummary summary = merge(db, other);
    const std::string renamed = renamed_text(summary.renamed);
    printer.row({other, summary.new_runs, summary.new_sources, summary.known_sources, summary.rows,
                 summary.duplicates, summary.conflicts, renamed});
    if (summary.pins_left + summary.waivers_left > 0) left.push_back(left_text(other, summary));
  }
  make_durable(db);
  printer.finish();
  for (const std::string& line : left) complain("greta-db", line);
  return kExitDone;
}

// ---- push

struct PushArguments {
  std::string to, run, since, cluster, which;
  Repeats repeats = Repeats::kAll;
  bool replace = false;
};

std::vector<int64_t> chosen_runs(SQLite::Database& db, const PushArguments& arguments) {
  std::vector<int64_t> ids;
  if (!arguments.since.empty()) {
    Query query(db,
                "SELECT r.id FROM run r WHERE r.date >= ? AND NOT EXISTS"
                " (SELECT 1 FROM directory_level l WHERE l.run_id = r.id) ORDER BY r.id");
    query.bind(1, arguments.since);
    while (query.step()) ids.push_back(query.integer(0));
    return ids;
  }
  for (const Run& run : resolve_runs_or_all(db, arguments.run, arguments.repeats))
    ids.push_back(run.id);
  return ids;
}

/// Once in a push: why it waits, and that it goes on.
std::function<void(const clickhouse::Unavailable&)> tell_of_waiting(ProgressLine& line) {
  return [&line, is_told = false](const clickhouse::Unavailable& why) mutable {
    if (std::exchange(is_told, true)) return;
    line.clear();
    complain("greta-db", std::string(why.what()) + ": trying again for some 25 seconds");
  };
}

/// Nothing there depends on it, but what the file says of times may be wrong.
void tell_of_clock(FleetServer& server) {
  constexpr int64_t kDaySeconds = 86400;
  const auto there =
      static_cast<int64_t>(server.client().number("SELECT toUInt64(toUInt32(now()))"));
  const auto here = static_cast<int64_t>(std::time(nullptr));
  if (std::abs(there - here) <= kDaySeconds) return;
  complain("greta-db", "the clocks of this machine and of the server are " +
                           std::to_string(std::abs(there - here) / kDaySeconds) +
                           " days apart: nothing goes by them, but dates of runs may be wrong");
}

int push(Options& options, const PushArguments& arguments) {
  if (arguments.run.empty() + arguments.since.empty() + (arguments.which.empty()) != 2) {
    throw UsageError("say what to push: --run R, --since DATE or all");
  }
  SQLite::Database db = open_for_reading(options.database);
  const std::vector<int64_t> runs = chosen_runs(db, arguments);
  PushSummary summary;
  {
    ProgressLine line;
    const auto server = connect_to_fleet(arguments.to, {8, tell_of_waiting(line)});
    server->create(arguments.cluster);
    tell_of_clock(*server);
    PushOptions how;
    how.replace = arguments.replace;
    how.progress = [&line](const PushProgress& progress) {
      line.show([&] {
        return std::to_string(progress.runs) + " of " + std::to_string(progress.all_runs) +
               " runs, " + std::to_string(progress.rows) + " rows";
      });
    };
    summary = push_runs(db, *server, runs, how);
  }
  if (summary.judged_as_shipped) {
    complain("greta-db",
             "the tolerances of " + options.database +
                 " stay with it: the warehouse has the verdicts by those that greta ships"
                 " (`greta-db tolerance list` shows both)");
  }
  const std::string renamed = renamed_text(summary.renamed);
  print_record(options, {{"runs", summary.runs},
                         {"known", summary.known},
                         {"rows", summary.rows},
                         {"differences", summary.differences},
                         {"records", summary.records},
                         {"renamed", renamed}});
  for (const std::string& why : summary.refused) complain("greta-db", why);
  return summary.refused.empty() ? kExitDone : kExitError;
}

// ---- pull

struct PullArguments {
  std::string from;
  std::vector<std::string> runs;
  Repeats repeats = Repeats::kAll;
};

/// Those that --run means, of all that it can mean: as over a file.
std::vector<Published> named_runs(FleetServer& server, const PullArguments& arguments) {
  std::vector<Published> wanted;
  std::set<std::string> known;
  for (const std::string& text : arguments.runs) {
    std::vector<Published> all = published_named(server, text);
    FleetFile names(server);
    names.add(all, Records::kVerdict);
    std::set<int64_t> chosen;
    for (const Run& run : resolve_runs(names.db(), text, arguments.repeats)) chosen.insert(run.id);
    for (size_t i = 0; i < names.runs().size(); ++i) {
      const Published& one = names.runs()[i];
      if (chosen.contains(names.run_id(i)) && known.insert(one.identity).second)
        wanted.push_back(one);
    }
  }
  std::sort(wanted.begin(), wanted.end());
  return wanted;
}

int pull(Options& options, const PullArguments& arguments) {
  const std::unique_ptr<FleetServer> server = open_fleet(arguments.from);
  const std::vector<Published> wanted = named_runs(*server, arguments);
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "pulled.db";
  {
    FleetFile fetched(*server, open_for_writing(file));
    fetched.add(wanted, Records::kAll);
    fetched.add_commits();
    std::vector<int64_t> ids;
    for (size_t i = 0; i < wanted.size(); ++i) ids.push_back(fetched.run_id(i));
    fetched.add_rows(ids);
  }
  SQLite::Database db = open_for_writing(options.database);
  const MergeSummary summary = merge(db, file, server->where());
  make_durable(db);
  const std::string renamed = renamed_text(summary.renamed);
  return print_record(options, {{"runs", static_cast<int64_t>(wanted.size())},
                                {"new_runs", summary.new_runs},
                                {"rows", summary.rows},
                                {"duplicates", summary.duplicates},
                                {"conflicts", summary.conflicts},
                                {"renamed", renamed}});
}

// ---- fleet

/// `fleet check` judges one run in so many again.
constexpr int64_t kSample = 100;
/// A day: no push takes so long.
constexpr int64_t kSweptAfterHours = 24;

struct FleetArguments {
  std::string run;
  std::optional<int64_t> sample, older_than;
  bool dry_run = false;
};

std::unique_ptr<FleetServer> fleet_of(const Options& options) {
  if (!clickhouse::is_address(options.database)) {
    throw UsageError(std::string("--db names the warehouse: ") + kAddress);
  }
  return open_fleet(options.database);
}

int check_there(Options& options, const FleetArguments& arguments) {
  const std::unique_ptr<FleetServer> server = fleet_of(options);
  const std::vector<Published> runs =
      arguments.run.empty() ? published(*server, {}) : published_named(*server, arguments.run);
  if (runs.empty() && !arguments.run.empty())
    throw UsageError("no run or experiment '" + arguments.run + "' at " + server->where());
  ProgressLine line;
  const FleetCheckSummary summary =
      check_fleet(*server, runs, arguments.sample.value_or(kSample),
                  [&](int64_t done) { line.show([&] { return counted(done, "run"); }); });
  line.clear();
  if (summary.differences.empty() && options.format == Format::kTable) {
    options.out.write(std::to_string(summary.runs) + " runs, " + std::to_string(summary.rows) +
                      " rows: all rows and verdicts are those that were sent; " +
                      std::to_string(summary.judged) + " judged again: the same verdicts\n");
    return kExitDone;
  }
  RowPrinter printer(options.out, options.format, {"run", "pushed", "worked_out"});
  for (const FleetDifference& one : summary.differences)
    printer.row({one.run, one.pushed, one.judged});
  printer.finish();
  return summary.differences.empty() ? kExitDone : kExitError;
}

int sweep(Options& options, const FleetArguments& arguments) {
  const std::unique_ptr<FleetServer> server = fleet_of(options);
  const SweptRows swept =
      sweep_fleet(*server, arguments.older_than.value_or(kSweptAfterHours), !arguments.dry_run);
  return print_record(options, {{"pushes", static_cast<int64_t>(swept.pushes.size())},
                                {"rows", static_cast<int64_t>(swept.rows)},
                                {"differences", static_cast<int64_t>(swept.differences)},
                                {"records", static_cast<int64_t>(swept.records)},
                                {"removed", arguments.dry_run ? "no" : "yes"}});
}

}  // namespace

void add_merge_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "merge", "Adds what other greta databases have; nothing is lost and nothing doubled");
  add_option(*command, "others OTHER.db...", add_action(*command, options, merge_files),
             "Databases to read; they are not changed")
      ->required();
}

void add_push_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "push", "Send runs to a warehouse in ClickHouse, which many machines share");
  PushArguments& a = add_action(*command, options, push);
  add_option(*command, "--to ADDRESS", a.to,
             "clickhouse://USER@HOST:PORT/DATABASE, clickhouses:// over TLS; the password is"
             " $GRETA_FLEET_PASSWORD's, or that of the file $GRETA_FLEET_PASSWORD_FILE")
      ->required();
  CLI::Option* run = add_run_option(*command, a.run, a.repeats);
  CLI::Option* since =
      add_option(*command, "--since DATE", a.since, "Runs of this date (YYYY-MM-DD) or later")
          ->check(wrong_date)
          ->excludes(run);
  add_option(*command, "which all", a.which, "all: every run of the file")
      ->check(CLI::IsMember({"all"}))
      ->excludes(run)
      ->excludes(since);
  add_option(*command, "--cluster NAME", a.cluster,
             "Where there are no tables yet: lay them over the shards of this cluster of the"
             " server, replicated where it is");
  command->add_flag("--replace", a.replace,
                    "Send also what is there already, and where the run there has sources that this"
                    " file lacks");
}

void add_pull_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "pull", "Brings runs of a warehouse in ClickHouse into the file, as merge does");
  PullArguments& a = add_action(*command, options, pull);
  add_option(*command, "--from ADDRESS", a.from, std::string(kAddress) + ", as for push")
      ->required();
  add_run_option(*command, a.runs, a.repeats)->required();
}

void add_fleet_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand("fleet", "Check or clean a warehouse in ClickHouse");
  command->require_subcommand(1);
  command->fallthrough();
  CLI::App* checking = command->add_subcommand(
      "check", "Compare what is there with what was sent, and judge some runs again");
  FleetArguments& check = add_action(*checking, options, check_there, Takes::kFleet);
  add_option(*checking, "--run NAME", check.run,
             "Only these: a run, an experiment or part of a name");
  add_number_option(*checking, "--sample N", check.sample,
                    "Fetch one run in N and judge it again (default 100; 1: every run)", 1,
                    1 << 30);
  CLI::App* sweeping = command->add_subcommand(
      "sweep", "Remove what interrupted pushes left, and runs that were pushed again since");
  FleetArguments& swept = add_action(*sweeping, options, sweep, Takes::kFleet);
  add_number_option(*sweeping, "--older-than HOURS", swept.older_than,
                    "Only what was sent more than so many hours ago (default 24), as a push may be"
                    " under way",
                    0, 24 * 3650);
  sweeping->add_flag("--dry-run", swept.dry_run, "Only say what there is");
}

}  // namespace greta
