#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

#include "cli/commits/recorded_answers.h"
#include "cli/commits/repository.h"
#include "cli/greta_db/commands.h"
#include "cli/greta_db/gated_run.h"
#include "cli/output/files.h"
#include "cli/show/judged_row.h"
#include "cli/show/page.h"
#include "cli/warehouse/asked_database.h"
#include "common/completion.h"
#include "common/json_text.h"
#include "common/trouble.h"
#include "common/utf8.h"
#include "db/clickhouse/address.h"
#include "db/judge.h"

namespace greta {
namespace {

/// Exit status by which git bisect run passes a commit over.
constexpr int kBisectSkips = 125;

struct GateArguments {
  std::string run, experiment, commit, lineage, baseline, junit, markdown, json, html;
  Language language = Language::kEnglish;
  Repeats repeats = Repeats::kAll;
  Gate gate = Gate::kVerdict;
  bool force = false, require_baseline = false, recorded = false;
};

constexpr const char* kJsonStart = "{\"answer\":\"";  // of gate_json

/// True if a file begins as one of these.
bool begins_as(const std::filesystem::path& file, const std::vector<std::string>& beginnings) {
  size_t longest = 0;
  for (const std::string& one : beginnings) longest = std::max(longest, one.size());
  std::string start(longest, '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(start.data(), static_cast<std::streamsize>(longest));
  start.resize(static_cast<size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](const std::string& one) { return start.starts_with(one); });
}

/// A file of --junit, --markdown, --json or --html: nothing, standard output, or a file that
/// appears whole.
class Target {
 public:
  /// Throws UsageError where nothing can be written, or where something would be lost: before
  /// anything is touched. A file that is there is replaced with `force`, when it is empty, or when
  /// an earlier gate wrote it, as what it begins with tells.
  Target(const std::string& option, const std::string& name,
         const std::vector<std::string>& beginnings, const std::string& database, bool force) {
    if (name.empty()) return;
    given_ = option + " " + name;
    if (name == "-") {
      standard_output_ = true;
      return;
    }
    namespace fs = std::filesystem;
    refuse_database_file(option, name, database);
    file_ = file_behind(name);  // a link stays, and what it names is replaced
    if (!fs::is_directory(file_.parent_path())) {
      const fs::path folder = fs::path(name).parent_path();
      throw UsageError(given_ + ": there is no folder " +
                       (folder.empty() ? file_.parent_path() : folder).string());
    }
    if (!fs::exists(file_)) return;
    if (!fs::is_regular_file(file_)) {
      throw UsageError(given_ + " is there and is no regular file; - is standard output");
    }
    is_ours_ = begins_as(file_, beginnings);
    if (is_ours_ || force || fs::is_empty(file_)) return;
    throw UsageError(given_ + " is there, and no gate wrote it as " + option +
                     ": name another file, or give --force to replace it");
  }

  /// Removes what an earlier gate left, so that it is not taken for this one's answer where none is
  /// given. Throws std::system_error.
  void begin() {
    if (file_.empty()) return;
    if (is_ours_) std::filesystem::remove(file_);
    new_file_ = std::make_unique<NewFile>(file_, true);
  }

  bool wanted() const { return standard_output_ || new_file_ != nullptr; }
  bool is_standard_output() const { return standard_output_; }
  const std::filesystem::path& file() const { return file_; }
  const std::string& given() const { return given_; }
  void write(Output& out, const std::string& text) {
    if (standard_output_) out.write(text);
    if (new_file_) new_file_->write(text);
  }
  void keep() {
    if (new_file_) new_file_->keep();
  }

 private:
  std::string given_;  ///< option and name
  std::filesystem::path file_;
  bool standard_output_ = false, is_ours_ = false;
  std::unique_ptr<NewFile> new_file_;
};

using Targets = std::array<Target, 4>;  // JUnit, Markdown, JSON, HTML

/// One of each kind, checked and begun.
Targets begin_targets(const GateArguments& a, const std::string& database) {
  const auto target = [&](const char* option, const std::string& name,
                          const std::vector<std::string>& beginnings) {
    return Target(option, name, beginnings, database, a.force);
  };
  Targets all{
      target("--junit", a.junit, {kJunitStart}), target("--markdown", a.markdown, {kMarkdownStart}),
      target("--json", a.json, {kJsonStart}),
      target("--html", a.html,
             {page_start("gate", Language::kEnglish), page_start("gate", Language::kSpanish)})};
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (all[i].is_standard_output() && all[k].is_standard_output()) {
        throw UsageError("only one of --junit, --markdown, --json and --html can be -");
      }
      if (!all[i].file().empty() && all[i].file() == all[k].file()) {
        throw UsageError(all[k].given() + " and " + all[i].given() + " are one file");
      }
    }
  }
  for (Target& one : all) one.begin();
  return all;
}

std::string gate_json(GatedRuns& runs, int status) {
  std::vector<std::string> objects;
  for (const auto& run : runs) objects.push_back(run->json());
  JsonObject object;
  object.add("answer", answer_of_status(status)).add("exit_status", status);
  return object.raw("runs", json_array(objects)).take() + "\n";
}

void print_rows(Output& out, Format format, const GatedRuns& runs) {
  std::vector<std::string> names = runs.front()->row().names();
  names.emplace_back("headline");
  RowPrinter rows(out, format, names);
  for (const auto& run : runs) {
    const std::string answer = run->answer(), gate(gate_name(run->gate()));
    const std::string headline = run->headline();
    std::vector<Cell> cells = run->row().cells();
    cells[1] = Cell(answer);  // of the gate that was asked for
    cells[2] = Cell(gate);
    cells.emplace_back(headline);
    rows.row(cells);
  }
  rows.finish();
}

/// A commit that has no run.
struct NoRun : UsageError {
  explicit NoRun(const GateArguments& arguments)
      : UsageError("no run of commit " + arguments.commit +
                   (arguments.lineage.empty() ? "" : " in lineage " + arguments.lineage)) {}
};

/// Without the baseline itself, where others are there to be held against it.
std::vector<Run> runs_to_gate(SQLite::Database& db, const GateArguments& arguments,
                              const std::optional<Run>& baseline) {
  std::vector<Run> runs;
  if (!arguments.run.empty()) {
    runs = resolve_runs(db, arguments.run, arguments.repeats, Naming::kRun);
  } else if (!arguments.experiment.empty()) {
    runs = resolve_runs(db, arguments.experiment, arguments.repeats, Naming::kExperiment);
  } else {
    runs = CommitRuns(db, Repository("."), arguments.lineage).of(arguments.commit);
    if (runs.empty()) throw NoRun(arguments);
  }
  if (!baseline) return runs;
  std::erase(runs, *baseline);
  if (runs.empty()) {
    throw UsageError("run " + baseline->name +
                     " is not held against itself: name another --baseline");
  }
  return runs;
}

std::optional<Run> baseline_of(SQLite::Database& db, const GateArguments& arguments) {
  if (arguments.baseline.empty()) return std::nullopt;
  return resolve_run(db, arguments.baseline, Naming::kRun);
}

/// Has the database compare the runs with a baseline that is not their own.
void compare_with_baseline(SQLite::Database& db, const GateArguments& arguments) {
  const std::optional<Run> baseline = baseline_of(db, arguments);
  for (const Run& run : runs_to_gate(db, arguments, baseline))
    judge_change(db, run.id, baseline->id);
}

GatedRuns gated_runs(QueryPool& statements, const GateArguments& arguments) {
  GatedRuns runs;
  const std::optional<Run> baseline = baseline_of(statements.db(), arguments);
  const std::vector<Run> chosen = runs_to_gate(statements.db(), arguments, baseline);
  for (const Run& run : chosen) {
    runs.push_back(std::make_unique<GatedRun>(statements, run,
                                              baseline ? std::optional(baseline->id) : std::nullopt,
                                              arguments.gate, arguments.require_baseline));
    if (arguments.repeats == Repeats::kAll) {
      runs.back()->set_later(later_names(statements.db(), run, chosen));
    }
  }
  return runs;
}

Question question_of(const GateArguments& arguments) {
  Question question;
  const std::string& named = arguments.run.empty() ? arguments.experiment : arguments.run;
  if (!named.empty()) question.runs = {named};
  question.repeats = arguments.repeats;
  question.compared = true;
  question.failing_rows = true;
  if (!arguments.baseline.empty()) {
    question.runs.push_back(arguments.baseline);
    question.rows = true;
    question.prepare = [&](SQLite::Database& db) { compare_with_baseline(db, arguments); };
  }
  return question;
}

int gate(Options& options, const GateArguments& arguments) {
  Targets targets = begin_targets(arguments, options.database);
  AskedDatabase asked(options.database, question_of(arguments));
  SQLite::Database& db = asked.db();
  db.exec("BEGIN");  // one state of the database for all queries
  QueryPool statements(db);
  GatedRuns runs = gated_runs(statements, arguments);
  ExitOfVerdicts exit;
  for (const auto& run : runs) exit.add(run->answer());
  const int status = exit.status();
  const bool printed = std::any_of(targets.begin(), targets.end(), [](const Target& target) {
    return target.is_standard_output();
  });
  const bool prints_page = !printed && options.format == Format::kHtml;
  auto& [junit, markdown, json, html] = targets;
  const bool prints_json = !printed && options.format == Format::kJson;
  GateShow english(options.database, runs, status, Language::kEnglish);
  if (junit.wanted()) junit.write(options.out, gate_junit(options.database, english, runs));
  if (markdown.wanted()) markdown.write(options.out, english.markdown());
  std::string data, page;
  if (json.wanted() || html.wanted() || prints_page || prints_json) data = gate_json(runs, status);
  if (html.wanted() || prints_page)
    page = GateShow(options.database, runs, status, arguments.language).page(data);
  if (json.wanted()) json.write(options.out, data);
  if (html.wanted()) html.write(options.out, page);
  if (prints_json) {
    options.out.write(data);
  } else if (!printed && options.format == Format::kTable) {
    english.print(options.out);
  } else if (!printed && !prints_page) {
    print_rows(options.out, options.format, runs);
  }
  for (Target& target : targets) target.keep();
  if (prints_page) options.out.write(page);
  return status;
}

/// Answers git bisect run. By the runs' own verdicts, as the baseline of a lineage is another one
/// for each commit; by what changed since --baseline where that is named.
int gate_recorded(Options& options, const GateArguments& arguments) {
  try {
    AskedDatabase asked(options.database, question_of(arguments));
    QueryPool statements(asked.db());
    ExitOfVerdicts exit;
    for (const auto& run : gated_runs(statements, arguments)) {
      const bool own = arguments.baseline.empty();
      exit.add(own ? run->own(run->gate()) : run->answer());
      options.out.write(
          utf8::printable(run->name()) + "  " +
          utf8::printable(own ? run->own_text(kEnglishWords)
                              : run->headline() + "  " + run->change_text(kEnglishWords)) +
          "\n");
    }
    return exit.status() == kExitNoVerdict ? kBisectSkips : exit.status();
  } catch (const NoRun& none) {
    complain("greta-db", none.what());
    return kBisectSkips;
  }
}

int gate_or_answer(Options& options, GateArguments& a) {
  if ((a.run + a.experiment + a.commit).empty())
    throw UsageError("--run, --experiment or --commit is required");
  if (a.recorded && !(a.junit + a.markdown + a.json + a.html).empty())
    throw UsageError("--recorded prints a line per run, and writes no file");
  if (!a.commit.empty() && clickhouse::is_address(options.database))
    throw UsageError("--commit asks a file: `greta-db pull` brings runs of a warehouse into one");
  if (!a.commit.empty()) a.commit = Repository(".").commit(a.commit);
  return a.recorded ? gate_recorded(options, a) : gate(options, a);
}

void add_file_option(CLI::App& command, const char* name, std::string& file, const char* help) {
  command.add_option(name, file, help)
      ->check([](const std::string& text) { return text.empty() ? "give a file, or -" : ""; })
      ->option_text("FILE");
}

}  // namespace

void add_gate_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "gate", "May this merge? A run's own verdict, and what changed since its baseline");
  GateArguments& a = add_action(*command, options, gate_or_answer, Takes::kFleetAndPage);
  CLI::Option* run = add_run_option(*command, a.run, a.repeats, Naming::kRun);
  CLI::Option* experiment = add_experiment_option(*command, a.experiment, run);
  CLI::Option* commit =
      add_option(*command, "--commit REV", a.commit,
                 "In place of --run: the runs of this commit, which git finds in the current "
                 "folder")
          ->excludes(run)
          ->excludes(experiment)
          ->excludes(command->get_option("--latest"));
  add_option(*command, "--lineage NAME", a.lineage, "With --commit: only runs of this lineage")
      ->needs(commit)
      ->check(offers_rows("SELECT DISTINCT lineage FROM lineage"));
  command
      ->add_flag(
          "--recorded", a.recorded,
          "With --commit: answer git bisect run by the runs' own verdicts, or against --baseline: "
          "0 good, 1 bad, 125 no run or no verdict, 128 an error")
      ->needs(commit);
  add_option(*command, "--baseline NAME", a.baseline,
             "Hold it against this run (default: the baseline of its lineage)")
      ->check(offers_rows(kListRuns));
  command->add_flag("--require-baseline", a.require_baseline,
                    "Without a baseline there is no PASS: exit status 3");
  CLI::Option* strict = command->add_flag_callback(
      "--strict", [&a] { a.gate = Gate::kStrict; },
      "Go by the strict verdict: rounding fails (default: the verdict to act on)");
  command
      ->add_flag_callback(
          "--numeric", [&a] { a.gate = Gate::kNumeric; },
          "Go by the numeric verdict: rounding passes")
      ->excludes(strict);
  add_file_option(*command, "--junit", a.junit,
                  "Write a JUnit report, a case per prompt and layer; - is standard output");
  add_file_option(*command, "--markdown", a.markdown,
                  "Write a summary of at most 40 lines for GitHub or GitLab");
  add_file_option(*command, "--json", a.json, "Write all of it as one JSON object");
  add_file_option(*command, "--html", a.html,
                  "Write a page for a browser, as --format html prints it");
  command->add_flag("--force", a.force, "Replace files that exist, also those that no gate wrote");
  add_language_option(*command, a.language, "Language of the page: en (default) or es");
}

}  // namespace greta
