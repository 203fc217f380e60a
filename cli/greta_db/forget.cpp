#include "db/forget.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iostream>
#include <set>

#include "cli/greta_db/commands.h"
#include "cli/warehouse/known_value.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"
#include "common/completion.h"
#include "common/json_text.h"
#include "common/trouble.h"
#include "common/utc_time.h"
#include "common/utf8.h"
#include "db/database.h"

namespace greta {
namespace {

/// Runs that the question of a terminal names; the others are counted.
constexpr size_t kNamedRuns = 20;

/// How forget and prune go about what both do.
struct ForgetManner {
  bool yes = false, dry_run = false, running = false, vacuum = false;
};

struct ForgetArguments {
  std::vector<std::string> runs;
  std::string experiment;
  Repeats repeats = Repeats::kAll;
  bool unpin = false;
  ForgetManner manner;
};

struct PruneArguments {
  int keep_days = 0;
  std::string experiment;
  bool keep_failing = false;
  ForgetManner manner;
};

/// What is said of a run before it goes.
struct DoomedRun {
  RunToForget run;
  std::string experiment, date, status;
  int64_t rows = 0, sources = 0;
  std::string pinned;   ///< lineage that somebody pinned it as the baseline of; "" none
  int64_t waivers = 0;  ///< of it alone, which go with it
};

std::vector<DoomedRun> describe(SQLite::Database& db, const std::vector<Run>& runs) {
  Query query(db,
              "SELECT r.experiment, coalesce(r.date, substr(r.started_at, 1, 10)), r.status,"
              " (SELECT count(*) FROM trace_row t WHERE t.run_id = r.id),"
              " (SELECT count(*) FROM source s WHERE s.run_id = r.id),"
              " (SELECT p.lineage FROM pinned_baseline p WHERE p.run_id = r.id),"
              " (SELECT count(*) FROM waiver w WHERE w.run = r.name) FROM run r WHERE r.id = ?");
  std::vector<DoomedRun> doomed;
  for (const Run& run : runs) {
    query.bind(1, run.id);
    if (query.step()) {
      doomed.push_back({{run.id, run.name},
                        query.text(0),
                        query.text(1),
                        query.text(2),
                        query.integer(3),
                        query.integer(4),
                        query.text(5),
                        query.integer(6)});
    }
    query.reset();
  }
  return doomed;
}

int64_t rows_of(const std::vector<DoomedRun>& doomed) {
  int64_t rows = 0;
  for (const DoomedRun& one : doomed) rows += one.rows;
  return rows;
}

std::vector<RunToForget> runs_of(const std::vector<DoomedRun>& doomed) {
  std::vector<RunToForget> runs;
  for (const DoomedRun& one : doomed) runs.push_back(one.run);
  return runs;
}

void list_runs(Options& options, const std::vector<DoomedRun>& doomed) {
  RowPrinter printer(
      options.out, options.format,
      {"run", "experiment", "date", "status", "trace_rows", "sources", "pinned", "waivers"});
  for (const DoomedRun& one : doomed) {
    printer.row({one.run.name, one.experiment, or_null(one.date), one.status, one.rows, one.sources,
                 or_null(one.pinned), one.waivers});
  }
  printer.finish();
}

/// What somebody decided that goes with the runs: "1 pinned baseline, 2 waivers", or "".
std::string decisions_of(const std::vector<DoomedRun>& doomed) {
  int64_t pins = 0, waivers = 0;
  for (const DoomedRun& one : doomed) {
    pins += one.pinned.empty() ? 0 : 1;
    waivers += one.waivers;
  }
  std::string text = pins > 0 ? counted(pins, "pinned baseline") : "";
  if (waivers > 0) text += (text.empty() ? "" : ", ") + counted(waivers, "waiver");
  return text;
}

/// Asks on the terminal. Throws UsageError where there is none.
bool confirmed(const std::vector<DoomedRun>& doomed) {
  const std::string decisions = decisions_of(doomed);
  const std::string what = counted(static_cast<int64_t>(doomed.size()), "run") + " with " +
                           counted(rows_of(doomed), "trace row") +
                           (decisions.empty() ? "" : ", " + decisions);
  if (isatty(STDIN_FILENO) == 0 || isatty(STDERR_FILENO) == 0) {
    throw UsageError("this would forget " + what +
                     " for good, and nobody can be asked: --yes does it, --dry-run lists them");
  }
  for (size_t i = 0; i < std::min(doomed.size(), kNamedRuns); ++i) {
    std::fprintf(stderr, "  %s\n", utf8::printable(doomed[i].run.name).c_str());
  }
  if (doomed.size() > kNamedRuns)
    std::fprintf(stderr, "  ... and %zu more\n", doomed.size() - kNamedRuns);
  std::fprintf(stderr, "Forget %s for good? [y/N] ", what.c_str());
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

void print_summary(Options& options, const ForgetSummary& summary, bool dry_run) {
  const std::vector<std::pair<const char*, int64_t>> counts{{"runs", summary.runs},
                                                            {"levels", summary.levels},
                                                            {"trace_rows", summary.rows},
                                                            {"sources", summary.sources}};
  if (options.format == Format::kJson) {
    JsonObject object;
    object.add("dry_run", dry_run);
    for (auto [name, count] : counts) object.add(name, count);
    options.out.write(object.str() + "\n");
  } else if (options.format == Format::kTable) {
    options.out.write(
        "forgot " + counted(summary.runs, "run") + ": " + counted(summary.rows, "trace row") +
        ", " + counted(summary.sources, "source") +
        (summary.levels > 0 ? ", " + counted(summary.levels, "directory level") : "") + "\n");
  } else {
    RowPrinter printer(options.out, options.format, {"what", "count"});
    for (auto [name, count] : counts) printer.row({name, count});
    printer.finish();
  }
}

/// Lists, asks or forgets. `db` reads; the runs are looked up again when the lock is held.
int forget_these(Options& options, std::vector<DoomedRun> doomed, const ForgetManner& manner) {
  const std::string decisions = decisions_of(doomed);
  if (manner.dry_run) {
    list_runs(options, doomed);
    if (options.format == Format::kTable) {
      options.out.write("\n" + counted(static_cast<int64_t>(doomed.size()), "run") + " with " +
                        counted(rows_of(doomed), "trace row") +
                        (decisions.empty() ? "" : ", " + decisions) +
                        "; dry run: nothing was written\n");
    }
    return kExitDone;
  }
  SQLite::Database db = open_for_writing(options.database);
  ForgetSummary summary;
  ProgressLine line;
  if (!doomed.empty()) {
    if (!manner.yes && !confirmed(doomed)) {
      std::fprintf(stderr, "nothing was forgotten\n");
      return kExitDone;
    }
    const auto show = [&line](const char* what, int64_t done, int64_t all) {
      line.show([&] {
        return std::string(what) +
               (all == 1 ? "" : " " + std::to_string(done + 1) + " of " + std::to_string(all));
      });
    };
    summary = forget_runs(db, runs_of(doomed), show,
                          manner.running ? WrittenRuns::kForget : WrittenRuns::kRefuse);
  }
  if (manner.vacuum) {
    line.show([] { return std::string("giving space back"); });
    give_back_space(db);
  }
  make_durable(db);
  line.clear();
  print_summary(options, summary, false);
  if (!decisions.empty()) complain("greta-db", "with them went " + decisions);
  return kExitDone;
}

int forget(Options& options, const ForgetArguments& arguments) {
  std::vector<DoomedRun> doomed;
  {
    SQLite::Database db = open_for_reading(options.database);
    std::vector<Run> runs;
    std::set<int64_t> chosen;
    const auto choose = [&](const std::string& text, Naming naming) {
      for (Run& run : resolve_runs(db, text, arguments.repeats, naming)) {
        if (chosen.insert(run.id).second) runs.push_back(std::move(run));
      }
    };
    for (const std::string& run : arguments.runs) choose(run, Naming::kRun);
    if (!arguments.experiment.empty()) choose(arguments.experiment, Naming::kExperiment);
    if (runs.empty()) throw UsageError("--run or --experiment is required");
    doomed = describe(db, runs);
  }
  for (const DoomedRun& one : doomed) {
    if (one.pinned.empty() || arguments.unpin || arguments.manner.dry_run) continue;
    throw UsageError("run " + one.run.name + " is the pinned baseline of " + one.pinned +
                     ": --unpin forgets it all the same, and the runs of that lineage are then held"
                     " against the one before them");
  }
  return forget_these(options, std::move(doomed), arguments.manner);
}

/// The day that run r is of, NULL where nothing that reads as one says it.
constexpr const char* kDay =
    "CASE WHEN coalesce(r.date, r.started_at) GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*'"
    " THEN substr(coalesce(r.date, r.started_at), 1, 10) END";

bool fails(QueryPool& statements, const Run& run) {
  return RunQuery(statements, run.id,
                  "SELECT 1 FROM run_verdict WHERE run_id = ? AND verdict = 'FAIL'")
      .step();
}

/// How many runs stay that nothing is known against.
struct Staying {
  int64_t undated = 0, unended = 0;
};

/// Runs of before that day, oldest first, but for those that are still written.
std::vector<Run> runs_before(SQLite::Database& db, const PruneArguments& arguments,
                             const std::string& day, Staying& staying) {
  Where where;
  where.add("ifnull(" + std::string(kDay) + " < ?, 1)", day);
  where.add_if(arguments.experiment, "r.experiment = ?");
  Query query(db, "SELECT r.id, r.name, " + std::string(kDay) + " AS day FROM run r" + where.sql() +
                      " AND NOT EXISTS (SELECT 1 FROM directory_level l WHERE l.run_id = r.id)"
                      " ORDER BY day, r.id");
  where.bind(query);
  QueryPool statements(db);
  std::vector<Run> runs;
  while (query.step()) {
    if (query.is_null(2)) {
      ++staying.undated;
      continue;
    }
    const Run run{query.integer(0), query.text(1)};
    if (!arguments.manner.running && run_being_written(db, {{run.id, run.name}})) {
      ++staying.unended;
      continue;
    }
    if (arguments.keep_failing && fails(statements, run)) continue;
    runs.push_back(run);
  }
  return runs;
}

int prune(Options& options, const PruneArguments& arguments) {
  std::vector<DoomedRun> doomed;
  std::vector<DoomedRun> pinned;
  Staying staying;
  {
    SQLite::Database db = open_for_reading(options.database);
    check_known(db, NameOf::kExperiment, arguments.experiment);
    doomed = describe(db, runs_before(db, arguments, utc_day_before(arguments.keep_days), staying));
  }
  std::erase_if(doomed, [&](const DoomedRun& one) {
    if (one.pinned.empty()) return false;
    pinned.push_back(one);
    return true;
  });
  const int status = forget_these(options, std::move(doomed), arguments.manner);
  for (const DoomedRun& one : pinned) {
    complain("greta-db",
             "run " + one.run.name + " stays: it is the pinned baseline of " + one.pinned);
  }
  const auto say = [](int64_t n, const std::string& what) {
    if (n == 0) return;
    complain("greta-db", counted(n, "run") + (n == 1 ? " has " : " have ") + what +
                             (n == 1 ? " and stays" : " and stay"));
  };
  say(staying.undated, "no date");
  say(staying.unended, "not ended (--running, if what wrote it was killed)");
  return status;
}

/// Of "90d", "12w" or "2y"; throws CLI::ValidationError for another text.
int days_of(const std::string& text) {
  constexpr int kMaxDays = 100 * 366;
  int n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  const std::string unit(end, text.data() + text.size());
  const int days = unit == "d" ? 1 : unit == "w" ? 7 : unit == "y" ? 365 : 0;
  if (error != std::errc() || n < 0 || days == 0 || n > kMaxDays / days) {
    throw CLI::ValidationError(
        "--keep", "'" + text + "' is no age: give days, weeks or years as 90d, 12w, 2y");
  }
  return n * days;
}

void add_manner(CLI::App& command, ForgetManner& manner) {
  CLI::Option* yes =
      command.add_flag("--yes,-y", manner.yes, "Do not ask; needed where there is no terminal");
  command.add_flag("--dry-run", manner.dry_run, "List the runs, write nothing")->excludes(yes);
  command.add_flag("--running", manner.running,
                   "Also runs that have not ended: nothing may write to them any more");
  command.add_flag("--vacuum", manner.vacuum,
                   "Then give the space back: rewrites the file, which takes as much room again "
                   "meanwhile");
}

}  // namespace

void add_forget_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "forget", "Removes runs with all that belongs to them; their files can be ingested again");
  ForgetArguments& a = add_action(*command, options, forget);
  CLI::Option* run = add_run_option(*command, a.runs, a.repeats, Naming::kRun);
  add_experiment_option(*command, a.experiment, run);
  command->add_flag("--unpin", a.unpin,
                    "Also runs that are pinned as baselines (greta-db baseline set)");
  add_manner(*command, a.manner);
}

void add_prune_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand("prune", "Forgets runs that are older than an age");
  PruneArguments& a = add_action(*command, options, prune);
  command
      ->add_option_function<std::string>(
          "--keep", [&a](const std::string& age) { a.keep_days = days_of(age); },
          "Age up to which runs stay, by their date or else their start: 90d, 12w, 2y")
      ->required()
      ->option_text("AGE");
  command->add_flag("--keep-failing", a.keep_failing, "Runs whose verdict is FAIL stay");
  add_option(*command, "--experiment NAME", a.experiment, "Only runs of this experiment")
      ->check(offers_rows(kListExperiments));
  add_manner(*command, a.manner);
}

}  // namespace greta
