#include "cli/show/report.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "cli/greta_db/canned.h"
#include "cli/greta_db/commands.h"
#include "cli/output/files.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"
#include "cli/warehouse/verdict.h"
#include "common/child_process.h"
#include "common/environment.h"
#include "common/utf8.h"
#include "db/database.h"

namespace greta {
namespace {

using std::to_string;

struct ReportArguments {
  std::string run, out;
  Language language = Language::kEnglish;
  Repeats repeats = Repeats::kAll;
  bool force = false, full = false;
  Gate gate = Gate::kVerdict;
};

using Files = std::vector<std::pair<std::filesystem::path, FileContent>>;

/// The files of a directory.
Files files_of(QueryPool& statements, Format format, const std::filesystem::path& directory,
               const std::vector<Run>& runs, const FileContent& document) {
  std::filesystem::create_directories(directory);
  const std::string experiment = experiment_of(statements, runs.front());
  const bool alone = runs.size() == 1 && resolve_runs(statements.db(), experiment).size() == 1;
  const std::string stem = report_stem(experiment, runs.front().name, alone || runs.size() > 1);
  Files files;
  if (format == Format::kHtml) files.emplace_back(directory / (stem + ".html"), document);
  if (format == Format::kTable || format == Format::kMarkdown)
    files.emplace_back(directory / (stem + "_FINAL_REPORT.md"), document);
  std::set<std::string> taken;
  for (const Run& run : runs) {
    if (format != Format::kTable && format != Format::kTsv) break;
    const std::string name = unique_name(taken, report_stem(experiment, run.name, alone));
    files.emplace_back(
        directory / (name + "_ANALYSIS.tsv"),
        [&statements, run](const TextSink& sink) { write_analysis_table(statements, run, sink); });
  }
  return files;
}

int report(Options& options, const ReportArguments& arguments) {
  if (options.format == Format::kJson || options.format == Format::kCsv ||
      options.format == Format::kCsvSafe) {
    throw UsageError(
        "report writes Markdown (--format md), a page (--format html) or an analysis table"
        " (--format tsv);"
        " `greta-db firstfail` has the verdict as json and csv");
  }
  const Language language = arguments.language;
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
  const FileContent document = [&](const TextSink& sink) {
    if (html) return write_run_page(statements, runs, language, sink);
    const bool full = arguments.full || !arguments.out.empty();
    const Wording words(language);
    print_markdown((full ? final_report : brief_report)(statements, runs, words), sink);
  };
  const FileContent table = [&](const TextSink& sink) {
    write_analysis_table(statements, runs.front(), sink);
  };
  if (arguments.out.empty()) {
    (tsv ? table : document)([&](std::string_view text) { options.out.write(text); });
  } else {
    const Files files = directory ? files_of(statements, options.format, target, runs, document)
                                  : Files{{target, tsv ? table : document}};
    write_files("--out", options.database, arguments.force, files);
    for (const auto& [file, content] : files)
      options.out.write("wrote " + utf8::printable(file.string()) + "\n");
  }
  ExitOfVerdicts exit;
  for (const auto& row : judged_rows(statements, runs)) exit.add(row->verdict.at(arguments.gate));
  return exit.status();
}

// ---- open

struct OpenArguments {
  std::string run;
  Language language = Language::kEnglish;
  Repeats repeats = Repeats::kAll;
  bool print = false;
};

/// The first row of the canned query worst_recent.
Run worst_recent_run(SQLite::Database& db) {
  Query query(db, canned_query("worst_recent").sql);
  if (!query.step()) throw UsageError("there is no run to show: `greta-db ingest` brings some");
  return {query.integer(7), query.text(0)};
}

/// A new file that nobody else can read, among the temporary ones, with the page in it.
std::string temporary_page(QueryPool& statements, const std::vector<Run>& runs, Language language) {
  std::string path = environment_variable("TMPDIR");
  path = (path.empty() ? "/tmp" : path) + "/greta-XXXXXX.html";
  const int fd = mkostemps(path.data(), 5, O_CLOEXEC);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), path);
  close(fd);
  try {
    std::ofstream out(path, std::ios::binary);
    out.exceptions(std::ios::failbit | std::ios::badbit);
    write_run_page(statements, runs, language, [&](std::string_view text) { out << text; });
    out.close();
  } catch (const std::ios::failure&) {
    const int error = errno;
    unlink(path.c_str());
    throw std::system_error(error, std::generic_category(), path);
  } catch (...) {
    unlink(path.c_str());
    throw;
  }
  return path;
}

/// True if a browser was asked to show it.
bool show(const std::string& path) {
  if (environment_variable("DISPLAY").empty() && environment_variable("WAYLAND_DISPLAY").empty())
    return false;
  try {
    start_apart({.command = {"xdg-open", path}});
    return true;
  } catch (const std::system_error&) {
    return false;  // there is none
  }
}

int open_page(Options& options, const OpenArguments& arguments) {
  SQLite::Database db = open_for_reading(options.database);
  db.exec("BEGIN");  // one state of the database for all queries
  const std::vector<Run> runs = arguments.run.empty()
                                    ? std::vector<Run>{worst_recent_run(db)}
                                    : resolve_runs(db, arguments.run, arguments.repeats);
  QueryPool statements(db);
  const std::string path = temporary_page(statements, runs, arguments.language);
  if (arguments.run.empty()) {
    std::fprintf(stderr, "greta-db: run %s\n", utf8::printable(runs.front().name).c_str());
  }
  if (!arguments.print && show(path)) {
    std::fprintf(stderr, "greta-db: a browser is asked to show %s\n",
                 utf8::printable(path).c_str());
    return kExitDone;
  }
  options.out.write(utf8::printable(path) + "\n");
  return kExitDone;
}

}  // namespace

void add_report_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "report",
      "What a run or an experiment comes to, on one screen; its final report, its analysis table");
  ReportArguments& a = add_action(*command, options, report, Takes::kPage);
  add_run_option(*command, a.run, a.repeats)->required();
  add_language_option(*command, a.language, "Language of the report: en (default), es or both",
                      true);
  add_option(*command, "--out DIR|FILE", a.out,
             "A directory (existing, or ending in /) for EXPERIMENT_FINAL_REPORT.md and"
             " EXPERIMENT_ANALYSIS.tsv, with --format html EXPERIMENT.html, or a file;"
             " default: standard output");
  command->add_flag("--full", a.full,
                    "Every section, not only what fits a screen; what --out writes has all");
  command->add_flag("--force", a.force, "Replace files that exist");
  add_gate_option(*command, a.gate);
  command->footer(
      "--format md (default) writes the report, --format html a page for a browser, --format tsv "
      "the"
      " analysis table.");
}

void add_open_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "open", "Show the page of a run in a browser: by default the worst of the newest day's runs");
  OpenArguments& a = add_action(*command, options, open_page);
  add_run_option(*command, a.run, a.repeats);
  command->add_flag("--print", a.print, "Print where the page is; open no browser");
  add_language_option(*command, a.language, "Language of the page: en (default) or es");
  command->footer(
      "Without --run: of the runs of the newest date, the first that fails, else one without a "
      "verdict,"
      "\nelse any; one with a fault on purpose only where there is no other. `greta-db query "
      "worst_recent`"
      "\nlists them."
      "\nThe page is a temporary file that only you can read. Without a display, or without "
      "xdg-open,"
      "\nits path is printed.");
}

}  // namespace greta
