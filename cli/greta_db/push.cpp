#include "db/fleet/push.h"

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/greta_db/commands.h"
#include "cli/options/shared_options.h"
#include "cli/warehouse/fleet.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"
#include "common/trouble.h"
#include "common/utf8.h"
#include "db/database.h"

namespace greta {
namespace {

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

/// On a terminal, from the second second on: a line that is written over.
class ProgressLine {
 public:
  void show(const PushProgress& progress) {
    if (!is_shown_) return;
    const auto now = Clock::now();
    if (now - last_ < std::chrono::seconds(1)) return;
    last_ = now;
    const double seconds = std::chrono::duration<double>(now - begun_).count();
    std::fprintf(stderr, "\rgreta-db: %lld of %lld runs, %lld rows, %.0f rows/s ",
                 static_cast<long long>(progress.runs), static_cast<long long>(progress.all_runs),
                 static_cast<long long>(progress.rows),
                 static_cast<double>(progress.rows) / seconds);
    is_written_ = true;
  }
  /// Goes on below: something else is to be said.
  void end() {
    if (std::exchange(is_written_, false)) std::fputc('\n', stderr);
  }
  ~ProgressLine() { end(); }

 private:
  using Clock = std::chrono::steady_clock;
  bool is_shown_ = isatty(STDERR_FILENO) == 1, is_written_ = false;
  Clock::time_point begun_ = Clock::now(), last_ = begun_;
};

/// Once in a push: why it waits, and that it goes on.
std::function<void(const clickhouse::Unavailable&)> tell_of_waiting(ProgressLine& line) {
  return [&line, is_told = false](const clickhouse::Unavailable& why) mutable {
    if (std::exchange(is_told, true)) return;
    line.end();
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
    how.progress = [&line](const PushProgress& progress) { line.show(progress); };
    summary = push_runs(db, *server, runs, how);
  }
  std::string renamed;
  for (const auto& [here, there] : summary.renamed) {
    renamed += (renamed.empty() ? "" : "; ") + here + " is " + there;
  }
  RowPrinter printer(options.out, options.format,
                     {"runs", "known", "rows", "differences", "records", "renamed"});
  printer.row(
      {summary.runs, summary.known, summary.rows, summary.differences, summary.records, renamed});
  printer.finish();
  return kExitDone;
}

}  // namespace

void add_push_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "push", "Send runs to a warehouse in ClickHouse, which many machines share");
  auto arguments = std::make_shared<PushArguments>();
  command
      ->add_option("--to", arguments->to,
                   "clickhouse://USER@HOST:PORT/DATABASE, clickhouses:// over TLS; the password is"
                   " $GRETA_FLEET_PASSWORD's, or that of the file $GRETA_FLEET_PASSWORD_FILE")
      ->required()
      ->option_text("ADDRESS");
  CLI::Option* run = add_run_option(*command, arguments->run, arguments->repeats);
  CLI::Option* since =
      command->add_option("--since", arguments->since, "Runs of this date (YYYY-MM-DD) or later")
          ->check(wrong_date)
          ->excludes(run)
          ->option_text("DATE");
  command->add_option("which", arguments->which, "all: every run of the file")
      ->check(CLI::IsMember({"all"}))
      ->excludes(run)
      ->excludes(since)
      ->option_text("all");
  command
      ->add_option("--cluster", arguments->cluster,
                   "Where there are no tables yet: lay them over the shards of this cluster of the"
                   " server, replicated where it is")
      ->option_text("NAME");
  command->add_flag("--replace", arguments->replace,
                    "Send also what is there already, and where the run there has sources that this"
                    " file lacks");
  command->callback([&options, arguments] {
    options.action = [&options, arguments] { return push(options, *arguments); };
  });
}

}  // namespace greta
