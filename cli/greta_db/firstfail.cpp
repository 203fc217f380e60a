#include <cstdio>
#include <map>
#include <memory>
#include <optional>

#include "cli/greta_db/commands.h"
#include "cli/greta_db/judged_run.h"
#include "cli/greta_db/run_lines.h"
#include "cli/show/pair_map.h"
#include "cli/warehouse/asked_database.h"
#include "common/utf8.h"

namespace greta {
namespace {

/// More runs than this, when none was named, show as one line each.
constexpr size_t kMaxBlocks = 12;

struct FirstFailArguments {
  std::string run;
  Repeats repeats = Repeats::kAll;
  Gate gate = Gate::kVerdict;
  bool map = false;
};

/// "3 runs: 1 FAIL, 2 NO_EVIDENCE".
std::string tally(const std::map<std::string, int>& verdicts, size_t runs) {
  std::string text;
  for (const auto& [verdict, count] : verdicts) {
    text += (text.empty() ? ": " : ", ") + std::to_string(count) + " " + verdict;
  }
  return std::to_string(runs) + " runs" + text + "\n";
}

int firstfail(Options& options, const FirstFailArguments& arguments) {
  Question question;
  if (!arguments.run.empty()) question.runs = {arguments.run};
  question.repeats = arguments.repeats;
  question.failing_rows = true;
  AskedDatabase asked(options.database, question);
  SQLite::Database& db = asked.db();
  std::vector<Run> runs = resolve_runs_or_all(db, arguments.run, arguments.repeats);
  const bool named_all = !arguments.run.empty() && arguments.repeats == Repeats::kAll;
  const bool json = options.format == Format::kJson, table = options.format == Format::kTable;
  if (arguments.map && !table) throw UsageError("--map is a picture: it has no --format");
  const bool blocks =
      table && (arguments.map || !arguments.run.empty() || runs.size() <= kMaxBlocks);
  QueryPool statements(db);
  std::optional<VerdictRows> rows;
  std::optional<RunLines> lines;
  if (table && !blocks) lines.emplace(options.out);
  if (!table && !json)
    rows.emplace(options.out, options.format, verdict_of(statements, 0).column_names());
  if (json) options.out.write("[");

  std::map<std::string, int> verdicts;
  ExitOfVerdicts exit;
  bool first = true;
  for (const Run& run : runs) {
    RunQuery row = verdict_of(statements, run.id);
    if (!row.step()) continue;
    const RunVerdict verdict(row);
    const JudgedRun judged(statements, run.id, verdict, arguments.gate);
    const std::string later =
        named_all ? utf8::printable(later_text(later_names(db, run, runs))) : "";
    exit.add(judged.head.verdict);
    verdicts[judged.head.brief()]++;
    if (json) {
      options.out.write((first ? "\n" : ",\n") + json_of(judged));
    } else if (blocks) {
      if (!first) options.out.write("\n");
      print_block(options.out, judged, later);
      if (arguments.map) print_terminal(maps_of(read_map(statements, run)), options.out);
    } else if (lines) {
      lines->add(verdict, judged.head);
    } else {
      rows->row(verdict, judged.head);
    }
    if (!blocks && !later.empty())
      std::fprintf(stderr, "greta-db: later runs: %s\n", later.c_str());
    first = false;
  }
  if (json) options.out.write(first ? "]\n" : "\n]\n");
  if (rows) rows->finish();
  if (lines) lines->print();
  if (table) {
    if (first)
      options.out.write("no runs in " + utf8::printable(options.database) +
                        ": nothing was judged\n");
    if (runs.size() > 1) options.out.write("\n" + tally(verdicts, runs.size()));
  }
  return exit.status();
}

}  // namespace

void add_firstfail_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "firstfail", "Verdict of runs and where prefill and decode first part ways");
  auto arguments = std::make_shared<FirstFailArguments>();
  add_run_option(*command, arguments->run, arguments->repeats);
  add_gate_option(*command, arguments->gate);
  command->add_flag("--map", arguments->map,
                    "With it a map of every layer and trace point, prompts that look alike in one");
  command->callback([&options, arguments] {
    options.asks_fleet = true;
    options.action = [&options, arguments] { return firstfail(options, *arguments); };
  });
}

}  // namespace greta
