#include "cli/warehouse/fleet.h"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#include "cli/greta_db/commands.h"
#include "cli/options/shared_options.h"
#include "common/exit_status.h"
#include "db/clickhouse/address.h"
#include "db/fleet/fleet_check.h"

namespace greta {
namespace {

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
    throw UsageError("--db names the warehouse: clickhouse://USER@HOST:PORT/DATABASE");
  }
  return open_fleet(options.database);
}

int check(Options& options, const FleetArguments& arguments) {
  const std::unique_ptr<FleetServer> server = fleet_of(options);
  const std::vector<Published> runs =
      arguments.run.empty() ? published(*server, {}) : published_named(*server, arguments.run);
  if (runs.empty() && !arguments.run.empty())
    throw UsageError("no run or experiment '" + arguments.run + "' at " + server->where());
  const bool is_shown = isatty(STDERR_FILENO) == 1;
  const FleetCheckSummary summary =
      check_fleet(*server, runs, arguments.sample.value_or(kSample), [&](int64_t done) {
        if (is_shown) std::fprintf(stderr, "\rgreta-db: %lld runs ", static_cast<long long>(done));
      });
  if (is_shown) std::fputc('\n', stderr);
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
  RowPrinter printer(options.out, options.format,
                     {"pushes", "rows", "differences", "records", "removed"});
  printer.row({static_cast<int64_t>(swept.pushes.size()), static_cast<int64_t>(swept.rows),
               static_cast<int64_t>(swept.differences), static_cast<int64_t>(swept.records),
               arguments.dry_run ? "no" : "yes"});
  printer.finish();
  return kExitDone;
}

}  // namespace

void add_fleet_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand("fleet", "Check or clean a warehouse in ClickHouse");
  command->require_subcommand(1);
  command->fallthrough();
  auto arguments = std::make_shared<FleetArguments>();
  CLI::App* checking = command->add_subcommand(
      "check", "Compare what is there with what was sent, and judge some runs again");
  checking
      ->add_option("--run", arguments->run, "Only these: a run, an experiment or part of a name")
      ->option_text("NAME");
  add_number_option(*checking, "--sample", arguments->sample,
                    "Fetch one run in N and judge it again (default 100; 1: every run)", 1, 1 << 30)
      ->option_text("N");
  checking->callback([&options, arguments] {
    options.asks_fleet = true;
    options.action = [&options, arguments] { return check(options, *arguments); };
  });
  CLI::App* sweeping = command->add_subcommand(
      "sweep", "Remove what interrupted pushes left, and runs that were pushed again since");
  add_number_option(*sweeping, "--older-than", arguments->older_than,
                    "Only what was sent more than so many hours ago (default 24), as a push may be"
                    " under way",
                    0, 24 * 3650)
      ->option_text("HOURS");
  sweeping->add_flag("--dry-run", arguments->dry_run, "Only say what there is");
  sweeping->callback([&options, arguments] {
    options.asks_fleet = true;
    options.action = [&options, arguments] { return sweep(options, *arguments); };
  });
}

}  // namespace greta
