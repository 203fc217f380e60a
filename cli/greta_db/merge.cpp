#include "db/merge.h"

#include <memory>

#include "cli/greta_db/commands.h"
#include "common/trouble.h"
#include "db/database.h"

namespace greta {
namespace {

std::string n_of(int64_t n, const std::string& what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

/// What the other file decides, and who runs a gate here decides alone.
std::string left_text(const std::string& other, const MergeSummary& summary) {
  std::string what;
  if (summary.pins_left > 0) what = n_of(summary.pins_left, "pinned baseline");
  if (summary.waivers_left > 0) {
    what += (what.empty() ? "" : " and ") + n_of(summary.waivers_left, "waiver");
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
    std::string renamed;
    for (const auto& [there, here] : summary.renamed) {
      renamed += (renamed.empty() ? "" : "; ") + there + " is " + here;
    }
    printer.row({other, summary.new_runs, summary.new_sources, summary.known_sources, summary.rows,
                 summary.duplicates, summary.conflicts, renamed});
    if (summary.pins_left + summary.waivers_left > 0) left.push_back(left_text(other, summary));
  }
  make_durable(db);
  printer.finish();
  for (const std::string& line : left) complain("greta-db", line);
  return kExitDone;
}

}  // namespace

void add_merge_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "merge", "Adds what other greta databases have; nothing is lost and nothing doubled");
  auto others = std::make_shared<std::vector<std::string>>();
  command->add_option("others", *others, "Databases to read; they are not changed")
      ->required()
      ->option_text("OTHER.db...");
  command->callback([&options, others] {
    options.action = [&options, others] { return merge_files(options, *others); };
  });
}

}  // namespace greta
