#include "cli/report.h"

#include <cerrno>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "cli/commands.h"
#include "cli/report_run.h"
#include "cli/report_section.h"
#include "cli/sql_query.h"
#include "cli/verdict.h"
#include "db/database.h"

namespace greta {
namespace {

using std::to_string;

std::string experiment_of(SQLite::Database& db, const Run& run) {
  RunQuery query(db, run.id, "SELECT experiment FROM run WHERE id = ?");
  query.step();
  return query.text(0);
}

/// The runs to compare: those named or, of one alone, the runs of its experiment on its date.
std::vector<int64_t> runs_beside(SQLite::Database& db, const std::vector<Run>& runs) {
  std::vector<int64_t> ids;
  for (const Run& run : runs) ids.push_back(run.id);
  if (runs.size() > 1) return ids;
  ids.clear();
  RunQuery query(
      db, runs.front().id,
      "SELECT r.id FROM run r JOIN run x ON x.experiment = r.experiment AND x.date IS r.date"
      " WHERE x.id = ? ORDER BY r.mode, r.id");
  while (query.step()) ids.push_back(query.integer(0));
  return ids;
}

std::string kv_summary(SQLite::Database& db, int64_t run_id, const char* column,
                       const Wording& words) {
  RunQuery query(db, run_id,
                 std::string("SELECT ") + column +
                     ", count(*) FROM kv_alignment WHERE run_id = ?"
                     " GROUP BY 1 ORDER BY 1");
  std::string text;
  while (query.step()) {
    text += (text.empty() ? "" : ", ") + to_string(query.integer(1)) + " " + query.text(0);
  }
  return text.empty() ? words("not_recorded") : text;
}

/// Table of runs; by mode when there are several modes. Nothing for one run of one mode. Returns
/// whether there are several modes.
bool write_runs(SQLite::Database& db, const std::vector<Run>& runs, const Wording& words,
                MarkdownWriter& out) {
  std::vector<int64_t> ids = runs_beside(db, runs);
  Query verdict(db,
                "SELECT " + std::string(kVerdictColumns) + " FROM run_verdict WHERE run_id = ?");
  std::multimap<std::string, std::vector<std::string>> by_mode;
  std::set<std::string> modes;
  for (int64_t id : ids) {
    verdict.bind(1, id);
    if (verdict.step()) {
      RunVerdict v(verdict);
      std::string mode = v.text("mode");
      if (!mode.empty()) modes.insert(mode);
      std::string first = "-";
      if (v.has("first_fail")) {
        first = escaped(v.text("first_fail")) + " (" + words("layer") + " " + v.show("layer") +
                ", " + escaped(v.show("tensor")) + ", " + escaped(v.show("prompt")) + ")";
      }
      by_mode.emplace(
          mode,
          std::vector<std::string>{
              mode.empty() ? words("not_recorded") : escaped(mode), escaped(v.text("run")),
              "**" + v.show("verdict") + "**", v.show("numeric_verdict"),
              v.show("pass") + ", " + v.show("fail") + ", " + v.show("missing"), first,
              kv_summary(db, id, "status", words), kv_summary(db, id, "interpretation", words)});
    }
    verdict.reset();
  }
  bool compares_modes = modes.size() > 1;
  if (!compares_modes && runs.size() == 1) return false;
  out.heading(2, compares_modes ? words("by_mode") : words("runs"));
  out.table({words("mode"), words("run"), words("verdict"), words("numeric_verdict"),
             words("conflict.pairs"), words("first_failure"), words("by_mode.kv"),
             words("by_mode.interpretation")});
  for (const auto& [mode, cells] : by_mode) out.row(cells);
  out.line();
  if (!compares_modes) return false;
  for (const std::string& mode : modes) {
    if (const ReportText* meaning = find_report_text("mode." + mode)) out.paragraph(*meaning);
  }
  return true;
}

struct Arguments {
  std::string run, language = "en", out;
  bool force = false;
  Gate gate = Gate::kStrict;
};

Language language_of(const std::string& name) {
  return name == "es" ? Language::kSpanish : name == "both" ? Language::kBoth : Language::kEnglish;
}

using Content = std::function<void(const TextSink&)>;

void write_file(Options& options, const std::filesystem::path& file, bool force,
                const Content& content) {
  NewFile target(file, force);
  content([&](std::string_view text) { target.write(text); });
  target.keep();
  options.out.write("wrote " + printable(file.string()) + "\n");
}

void write_directory(SQLite::Database& db, Options& options, const Arguments& arguments,
                     const std::vector<Run>& runs, const Content& markdown) {
  std::filesystem::path directory = arguments.out;
  std::filesystem::create_directories(directory);
  std::string experiment = experiment_of(db, runs.front());
  bool alone = runs.size() == 1 && resolve_runs(db, experiment).size() == 1;
  std::vector<std::pair<std::filesystem::path, Content>> files;
  if (options.format != Format::kTsv) {
    std::string stem = report_stem(experiment, runs.front().name, alone || runs.size() > 1);
    files.emplace_back(directory / (stem + "_FINAL_REPORT.md"), markdown);
  }
  std::set<std::string> taken;
  for (const Run& run : runs) {
    if (options.format == Format::kMarkdown) break;
    std::string stem = unique_name(taken, report_stem(experiment, run.name, alone));
    files.emplace_back(directory / (stem + "_ANALYSIS.tsv"),
                       [&db, run](const TextSink& sink) { write_analysis_table(db, run, sink); });
  }
  for (const auto& [file, content] : files) {  // before the first is written
    if (!arguments.force && std::filesystem::exists(std::filesystem::symlink_status(file))) {
      throw_file_error(file, EEXIST);
    }
  }
  for (const auto& [file, content] : files) write_file(options, file, arguments.force, content);
}

int report(Options& options, const Arguments& arguments) {
  if (options.format == Format::kJson || options.format == Format::kCsv) {
    throw UsageError(
        "report writes Markdown (--format md) or an analysis table (--format tsv);"
        " `greta-db firstfail` has the verdict as json and csv");
  }
  SQLite::Database db = open_for_reading(options.database);
  db.exec("BEGIN");  // one state of the database for all queries
  std::vector<Run> runs = resolve_runs(db, arguments.run);
  std::filesystem::path target = arguments.out;
  bool directory = !arguments.out.empty() &&
                   (std::filesystem::is_directory(target) || arguments.out.back() == '/');
  bool tsv = options.format == Format::kTsv ||
             (options.format == Format::kTable && !directory && target.extension() == ".tsv");
  if (tsv && !directory && runs.size() > 1) {
    throw UsageError("an analysis table holds one run and '" + printable(arguments.run) + "' is " +
                     to_string(runs.size()) +
                     ": name one of them, or give a directory with --out DIR/");
  }
  Content markdown = [&](const TextSink& sink) {
    write_final_report(db, runs, language_of(arguments.language), sink);
  };
  Content table = [&](const TextSink& sink) { write_analysis_table(db, runs.front(), sink); };
  if (directory) {
    write_directory(db, options, arguments, runs, markdown);
  } else if (!arguments.out.empty()) {
    write_file(options, target, arguments.force, tsv ? table : markdown);
  } else {
    (tsv ? table : markdown)([&](std::string_view text) { options.out.write(text); });
  }
  ExitOfVerdicts exit(arguments.gate);
  for (const Run& run : runs) {
    RunQuery query(db, run.id,
                   "SELECT " + std::string(kVerdictColumns) + " FROM run_verdict WHERE run_id = ?");
    if (query.step()) exit.add(RunVerdict(query));
  }
  return exit.status();
}

}  // namespace

void write_final_report(SQLite::Database& db, const std::vector<Run>& runs, Language language,
                        const TextSink& sink) {
  Wording words(language);
  MarkdownWriter out(words, sink);
  out.heading(1, escaped(experiment_of(db, runs.front())) + " " + words("title"));
  bool modes_compared = write_runs(db, runs, words, out);
  for (const Run& run : runs) {
    if (runs.size() > 1) out.heading(2, words("run") + " `" + in_code(run.name) + "`");
    write_run(db, run, out, runs.size() > 1 ? 3 : 2, modes_compared);
  }
  out.line("---");
  out.line();
  out.paragraph({"footer"});
}

void add_report_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "report", "Final report (Markdown) and analysis table (TSV) of a run or an experiment");
  auto arguments = std::make_shared<Arguments>();
  add_run_option(*command, arguments->run)->required();
  command
      ->add_option("--lang", arguments->language,
                   "Language of the report: en (default), es or both")
      ->check(CLI::IsMember({"en", "es", "both"}))
      ->option_text("LANG");
  command
      ->add_option("--out", arguments->out,
                   "A directory (existing, or ending in /) for EXPERIMENT_FINAL_REPORT.md and"
                   " EXPERIMENT_ANALYSIS.tsv, or a file; default: standard output")
      ->option_text("DIR|FILE");
  command->add_flag("--force", arguments->force, "Replace files that exist");
  add_gate_option(*command, arguments->gate);
  command->footer("--format md (default) writes the report, --format tsv the analysis table.");
  command->callback([&options, arguments] {
    options.action = [&options, arguments] { return report(options, *arguments); };
  });
}

}  // namespace greta
