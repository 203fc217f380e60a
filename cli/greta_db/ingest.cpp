#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <optional>

#include "cli/greta_db/commands.h"
#include "common/json_text.h"
#include "common/utf8.h"
#include "db/database.h"
#include "ingest/content_kind.h"
#include "ingest/importer.h"

namespace greta {
namespace {

constexpr size_t kMaxShown = 20;
constexpr int64_t kMaxJobs = std::numeric_limits<int>::max();

struct IngestArguments {
  std::vector<std::string> paths;
  IngestOptions options;
  std::optional<int64_t> jobs;
  bool quiet = false, resume = false;
};

/// "[####....] 3/10 files  4000 rows  NAME"
std::string progress_text(const IngestProgress& progress) {
  constexpr int64_t kWidth = 24;
  int64_t done = progress.bytes_total > 0
                     ? std::min(kWidth, kWidth * progress.bytes_done / progress.bytes_total)
                     : kWidth;
  std::string bar(static_cast<size_t>(done), '#');
  bar.resize(kWidth, '.');
  const std::string name =
      progress.current.empty() ? "verdicts" : utf8::printable(progress.current);
  return "[" + bar + "] " + std::to_string(progress.files_done) + "/" +
         std::to_string(progress.files_total) + " files  " + std::to_string(progress.rows) +
         " rows  " + shortened_to_width(name, 32);
}

std::vector<std::pair<const char*, int64_t>> counts(const IngestSummary& summary) {
  return {{"files", summary.files},
          {"new_sources", summary.new_sources},
          {"known_sources", summary.known_sources},
          {"rows", summary.rows},
          {"duplicates", summary.duplicates},
          {"conflicts", summary.conflicts},
          {"report_pairs", summary.report_pairs},
          {"log_events", summary.log_events},
          {"metrics", summary.metrics},
          {"errors", summary.errors},
          {"warnings", summary.warnings},
          {"known_errors", summary.known_errors},
          {"known_warnings", summary.known_warnings}};
}

std::string json_of(const IngestSummary& summary, bool dry_run) {
  JsonObject object;
  object.add("dry_run", dry_run);
  for (auto [name, count] : counts(summary)) object.add(name, count);
  std::vector<std::string> findings;
  for (const Finding& finding : summary.findings) {
    JsonObject one;
    one.add("file", finding.file).add("line", finding.line);
    one.add("severity", finding.is_error ? "error" : "warning").add("reason", finding.reason);
    findings.push_back(one.str());
  }
  return object.raw("findings", json_array(findings)).str() + "\n";
}

void print_findings(Output& out, const IngestSummary& summary) {
  size_t shown = 0;
  for (bool errors : {true, false}) {  // errors first: they are what the exit status tells
    for (const Finding& finding : summary.findings) {
      if (finding.is_error != errors || shown == kMaxShown) continue;
      std::string where = utf8::printable(finding.file);
      if (finding.line > 0) where += ":" + std::to_string(finding.line);
      out.write("  " + where + ": " + (errors ? "" : "warning: ") +
                utf8::printable(finding.reason) + "\n");
      shown++;
    }
  }
  int64_t more = summary.errors + summary.warnings - static_cast<int64_t>(shown);
  if (more > 0) {
    out.write("  ... and " + std::to_string(more) + " more: greta-db query ingest_errors\n");
  }
}

void print_summary(Options& options, const IngestSummary& s, bool dry_run) {
  Output& out = options.out;
  out.write(counted(s.files, "file") + ": " + counted(s.new_sources, "new source") + ", " +
            std::to_string(s.known_sources) + " already there\n");
  out.write(counted(s.rows, "trace row") + ", " + counted(s.duplicates, "duplicate") + ", " +
            counted(s.conflicts, "conflict") + "; " + counted(s.report_pairs, "report pair") +
            ", " + counted(s.log_events, "log event") + ", " + counted(s.metrics, "metric") + "\n");
  if (s.errors + s.warnings > 0) {
    out.write(counted(s.errors, "error") + " (quarantined), " + counted(s.warnings, "warning") +
              ":\n");
    print_findings(out, s);
  }
  const bool has_known = s.known_errors + s.known_warnings > 0;
  if (has_known) {
    out.write("known before and still there: " + counted(s.known_errors, "error") + ", " +
              counted(s.known_warnings, "warning") + ": greta-db query ingest_errors\n");
  }
  if (dry_run) {
    out.write("dry run: nothing was written\n");
  } else if (s.new_sources == 0 && s.known_sources > 0 && !has_known) {
    out.write("nothing new: the database has all of it\n");
  }
}

IngestSummary run_ingest(Options& options, IngestArguments& arguments) {
  ProgressLine line;
  if (!arguments.quiet) {
    arguments.options.progress = [&line](const IngestProgress& progress) {
      line.show([&] { return progress_text(progress); });
    };
  }
  const std::vector<std::string>& named = arguments.paths;
  const bool is_stream = std::find(named.begin(), named.end(), "-") != named.end();
  if (is_stream && (named.size() > 1 || arguments.resume || !arguments.options.run.empty())) {
    throw UsageError("ingest -: the standard input names its run itself, and is read alone");
  }
  // A dry run must not create the file that it leaves unwritten.
  bool in_memory = arguments.options.dry_run && !std::filesystem::exists(options.database);
  SQLite::Database db = open_for_writing(in_memory ? ":memory:" : options.database);
  if (is_stream) return ingest_stream(db, STDIN_FILENO, arguments.options);
  std::vector<std::filesystem::path> paths(arguments.paths.begin(), arguments.paths.end());
  if (paths.empty() && !arguments.resume) {
    throw UsageError("ingest: name files or directories, or --resume an interrupted ingest");
  }
  return ingest(db, paths, arguments.options);
}

int ingest_paths(Options& options, IngestArguments& arguments) {
  bool dry_run = arguments.options.dry_run;
  if (arguments.jobs) arguments.options.jobs = static_cast<int>(*arguments.jobs);
  IngestSummary summary = run_ingest(options, arguments);
  if (options.format == Format::kJson) {
    options.out.write(json_of(summary, dry_run));
  } else if (options.format != Format::kTable) {
    RowPrinter printer(options.out, options.format, {"what", "count"});
    for (auto [name, count] : counts(summary)) printer.row({name, count});
    printer.finish();
  } else if (!arguments.quiet) {
    print_summary(options, summary, dry_run);
  }
  if (summary.files > 0 && summary.taken == 0) {
    std::string why;
    bool is_of_a_line = false;
    for (const Finding& finding : summary.findings) {
      if (finding.is_error && why.empty()) {
        is_of_a_line = finding.line > 0;
        why = ": " + utf8::printable(finding.file) + ":" + std::to_string(finding.line) + ": " +
              utf8::printable(finding.reason);
      }
    }
    std::fputs(("greta-db: nothing of this was taken" + why + "\n" +
                (is_of_a_line ? "" : shapes_that_are_read()))
                   .c_str(),
               stderr);
    return kExitFail;
  }
  return summary.errors + summary.known_errors > 0 ? kExitFail : kExitDone;
}

}  // namespace

void add_ingest_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "ingest", "Reads files, directories and archives into the database, creating it if need be");
  IngestArguments& a = add_action(*command, options, ingest_paths);
  add_option(*command, "paths PATH...", a.paths,
             "Files (plain, .gz, .tgz) and directories, or - for rows from a pipe");
  CLI::Option* resume = command->add_flag(
      "--resume", a.resume, "Finish ingests that were interrupted (any ingest does so first)");
  command
      ->add_flag("--give-up", a.options.give_up,
                 "With --resume: end those whose paths are gone; their runs stay INCOMPLETE")
      ->needs(resume);
  command->add_flag("--dry-run", a.options.dry_run, "Read and check everything, write nothing");
  add_number_option(*command, "--jobs N", a.jobs,
                    "1: one thread does all; more (default 2): another one parses", 1, kMaxJobs);
  add_option(*command, "--run NAME", a.options.run,
             "Name of the run that all files belong to (default: from path and content)");
  command->add_flag("--follow", a.options.follow,
                    "Also follow links that lead out of a directory given");
  command->add_flag("--quiet,-q", a.quiet, "No progress bar and no summary table");
}

}  // namespace greta
