#include "cli/show/report.h"

#include <cerrno>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "cli/greta_db/commands.h"
#include "cli/output/files.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"
#include "cli/warehouse/verdict.h"
#include "common/utf8.h"
#include "db/database.h"

namespace greta {
namespace {

using std::to_string;

struct ReportArguments {
  std::string run, language = "en", out;
  Repeats repeats = Repeats::kAll;
  bool force = false, full = false;
  Gate gate = Gate::kVerdict;
};

using Content = std::function<void(const TextSink&)>;

void write_file(Options& options, const std::filesystem::path& file, bool force,
                const Content& content) {
  refuse_database_file("--out", file, options.database);
  NewFile target(file, force);
  content([&](std::string_view text) { target.write(text); });
  target.keep();
  options.out.write("wrote " + utf8::printable(file.string()) + "\n");
}

void write_directory(QueryPool& statements, Options& options, const ReportArguments& arguments,
                     const std::vector<Run>& runs, const Content& document) {
  std::filesystem::path directory = arguments.out;
  std::filesystem::create_directories(directory);
  std::string experiment = experiment_of(statements, runs.front());
  bool alone = runs.size() == 1 && resolve_runs(statements.db(), experiment).size() == 1;
  std::vector<std::pair<std::filesystem::path, Content>> files;
  const bool html = options.format == Format::kHtml;
  if (html) {
    std::string stem = report_stem(experiment, runs.front().name, alone || runs.size() > 1);
    files.emplace_back(directory / (stem + ".html"), document);
  } else if (options.format != Format::kTsv) {
    std::string stem = report_stem(experiment, runs.front().name, alone || runs.size() > 1);
    files.emplace_back(directory / (stem + "_FINAL_REPORT.md"), document);
  }
  std::set<std::string> taken;
  for (const Run& run : runs) {
    if (html || options.format == Format::kMarkdown) break;
    std::string stem = unique_name(taken, report_stem(experiment, run.name, alone));
    files.emplace_back(
        directory / (stem + "_ANALYSIS.tsv"),
        [&statements, run](const TextSink& sink) { write_analysis_table(statements, run, sink); });
  }
  for (const auto& [file, content] : files) {  // before the first is written
    if (!arguments.force && std::filesystem::exists(std::filesystem::symlink_status(file))) {
      throw_file_error(file, EEXIST);
    }
  }
  for (const auto& [file, content] : files) write_file(options, file, arguments.force, content);
}

int report(Options& options, const ReportArguments& arguments) {
  if (options.format == Format::kJson || options.format == Format::kCsv ||
      options.format == Format::kCsvSafe) {
    throw UsageError(
        "report writes Markdown (--format md), a page (--format html) or an analysis table"
        " (--format tsv);"
        " `greta-db firstfail` has the verdict as json and csv");
  }
  const Language language = language_named(arguments.language);
  const bool html = options.format == Format::kHtml;
  if (html && language == Language::kBoth) {
    throw UsageError("a page is in one language: --lang en or --lang es");
  }
  SQLite::Database db = open_for_reading(options.database);
  db.exec("BEGIN");  // one state of the database for all queries
  std::vector<Run> runs = resolve_runs(db, arguments.run, arguments.repeats);
  QueryPool statements(db);
  std::filesystem::path target = arguments.out;
  bool directory = !arguments.out.empty() &&
                   (std::filesystem::is_directory(target) || arguments.out.back() == '/');
  bool tsv = options.format == Format::kTsv ||
             (options.format == Format::kTable && !directory && target.extension() == ".tsv");
  if (tsv && !directory && runs.size() > 1) {
    throw UsageError("an analysis table holds one run and '" + arguments.run + "' is " +
                     to_string(runs.size()) +
                     ": name one of them, or give a directory with --out DIR/");
  }
  Content document = [&](const TextSink& sink) {
    if (html) return write_run_page(statements, runs, language, sink);
    const bool full = arguments.full || !arguments.out.empty();
    const Wording words(language);
    print_markdown((full ? final_report : brief_report)(statements, runs, words), sink);
  };
  Content table = [&](const TextSink& sink) {
    write_analysis_table(statements, runs.front(), sink);
  };
  if (directory) {
    write_directory(statements, options, arguments, runs, document);
  } else if (!arguments.out.empty()) {
    write_file(options, target, arguments.force, tsv ? table : document);
  } else {
    (tsv ? table : document)([&](std::string_view text) { options.out.write(text); });
  }
  ExitOfVerdicts exit;
  for (const auto& row : judged_rows(statements, runs)) exit.add(row->verdict.at(arguments.gate));
  return exit.status();
}

}  // namespace

void add_report_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "report",
      "What a run or an experiment comes to, on one screen; its final report, its analysis table");
  auto arguments = std::make_shared<ReportArguments>();
  add_run_option(*command, arguments->run, arguments->repeats)->required();
  command
      ->add_option("--lang", arguments->language,
                   "Language of the report: en (default), es or both")
      ->check(CLI::IsMember({"en", "es", "both"}))
      ->option_text("LANG");
  command
      ->add_option("--out", arguments->out,
                   "A directory (existing, or ending in /) for EXPERIMENT_FINAL_REPORT.md and"
                   " EXPERIMENT_ANALYSIS.tsv, with --format html EXPERIMENT.html, or a file;"
                   " default: standard output")
      ->option_text("DIR|FILE");
  command->add_flag("--full", arguments->full,
                    "Every section, not only what fits a screen; what --out writes has all");
  command->add_flag("--force", arguments->force, "Replace files that exist");
  add_gate_option(*command, arguments->gate);
  command->footer(
      "--format md (default) writes the report, --format html a page for a browser, --format tsv "
      "the"
      " analysis table.");
  command->callback([&options, arguments] {
    options.has_page = true;
    options.action = [&options, arguments] { return report(options, *arguments); };
  });
}

}  // namespace greta
