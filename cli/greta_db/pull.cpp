#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cli/greta_db/commands.h"
#include "cli/warehouse/asked_database.h"
#include "cli/warehouse/fleet.h"
#include "common/temporary_folder.h"
#include "db/database.h"
#include "db/fleet/fleet_file.h"
#include "db/merge.h"

namespace greta {
namespace {

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
  std::string renamed;
  for (const auto& [there, here] : summary.renamed) {
    renamed += (renamed.empty() ? "" : "; ") + there + " is " + here;
  }
  RowPrinter printer(options.out, options.format,
                     {"runs", "new_runs", "rows", "duplicates", "conflicts", "renamed"});
  printer.row({static_cast<int64_t>(wanted.size()), summary.new_runs, summary.rows,
               summary.duplicates, summary.conflicts, renamed});
  printer.finish();
  return kExitDone;
}

}  // namespace

void add_pull_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "pull", "Brings runs of a warehouse in ClickHouse into the file, as merge does");
  auto arguments = std::make_shared<PullArguments>();
  command
      ->add_option("--from", arguments->from, "clickhouse://USER@HOST:PORT/DATABASE, as for push")
      ->required()
      ->option_text("ADDRESS");
  add_run_option(*command, arguments->runs, arguments->repeats)->required();
  command->callback([&options, arguments] {
    options.action = [&options, arguments] { return pull(options, *arguments); };
  });
}

}  // namespace greta
