#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "cli/greta_db/commands.h"
#include "cli/greta_db/gated_run.h"
#include "cli/report/files.h"
#include "common/completion.h"
#include "common/json_text.h"
#include "common/utf8.h"
#include "db/database.h"

namespace greta {
namespace {

struct GateArguments {
  std::string run, baseline, junit, markdown, json, html, language = "en";
  Repeats repeats = Repeats::kAll;
  std::optional<Gate> gate;
};

/// A file of --junit, --markdown, --json or --html: nothing, standard output, or a file that
/// appears whole.
class Target {
 public:
  /// Throws UsageError or std::system_error where nothing can be written: before anything is asked.
  Target(const char* option, const std::string& name) {
    if (name.empty()) return;
    if (name == "-") {
      standard_output_ = true;
      return;
    }
    std::filesystem::path file(name);
    const std::filesystem::path folder =
        file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
    if (!std::filesystem::is_directory(folder)) {
      throw UsageError(std::string(option) + " " + name + ": there is no folder " +
                       folder.string());
    }
    if (std::filesystem::exists(file)) {
      if (!std::filesystem::is_regular_file(file)) {
        throw UsageError(std::string(option) + " " + name +
                         " is there and is no regular file; - is standard output");
      }
      file = std::filesystem::canonical(file);  // a link stays, and what it names is replaced
    }
    file_.emplace(file, true);
  }

  bool wanted() const { return standard_output_ || file_.has_value(); }
  bool is_standard_output() const { return standard_output_; }
  void write(Output& out, const std::string& text) {
    if (standard_output_) out.write(text);
    if (file_) file_->write(text);
  }
  void keep() {
    if (file_) file_->keep();
  }

 private:
  bool standard_output_ = false;
  std::optional<NewFile> file_;
};

/// The worst: 1, then 3, then 0; of no run 3.
int status_of(const GatedRuns& runs) {
  int worst = runs.empty() ? kExitNoVerdict : kExitDone;
  for (const auto& run : runs) {
    const int status = exit_of_verdict(run->answer());
    if (worst == kExitFail || status == kExitDone) continue;
    worst = status;
  }
  return worst;
}

std::string gate_json(GatedRuns& runs, int status) {
  std::vector<std::string> objects;
  for (const auto& run : runs) objects.push_back(run->json());
  JsonObject object;
  object.add("answer", answer_of_status(status)).add("exit_status", status);
  return object.raw("runs", json_array(objects)).take() + "\n";
}

void tell(Output& out, std::string_view label, const std::string& text) {
  std::string start = "  " + std::string(label);
  start.resize(12, ' ');
  out.write(start + text + "\n");
}

/// "PASS (2 pairs waived until 2026-12-31: reason)".
std::string headline(const GatedRun& run) {
  const std::vector<AppliedWaiver>& waivers = run.waivers();
  if (waivers.empty()) return "";
  const std::string n = run.row().show("waived");
  std::string text = " (" + n + (n == "1" ? " pair" : " pairs") + " waived";
  if (waivers.size() == 1) {
    text +=
        " until " + utf8::printable(waivers[0].until) + ": " + utf8::printable(waivers[0].reason);
  }
  return text + ")";
}

void print_run(Output& out, GatedRun& run, const std::string& database) {
  const RunVerdict& v = run.row();
  out.write(colored(out, run.answer()) + headline(run) + "  " + v.show("run") + "\n");
  tell(out, "own", run.own_text());
  for (const PairFinding& finding : run.findings(run.fail().prompt)) {
    tell(out, "",
         "looks like " + finding.name + ": " + utf8::printable(finding.evidence) + " (" +
             finding.meaning + ")");
  }
  tell(out, "since", run.change_text());
  for (const AppliedWaiver& waiver : run.waivers()) tell(out, "waived", waiver.text());
  if (const std::string why = run.no_verdict_text(); !why.empty()) tell(out, "why", why);
  const Gate other = run.other_gate();
  if (exit_of_verdict(run.answer(other)) != exit_of_verdict(run.answer())) {
    tell(out, "gate", "--" + std::string(gate_name(other)) + " gives " + run.answer(other));
  }
  if (run.answer() != "PASS") tell(out, "more", more_command(database, run));
}

void print_rows(Output& out, Format format, const GatedRuns& runs) {
  RowPrinter rows(out, format, runs.front()->row().names());
  for (const auto& run : runs) {
    const std::string answer = run->answer(), gate(gate_name(run->gate()));
    std::vector<Cell> cells = run->row().cells();
    cells[1] = Cell(answer);  // of the gate that was asked for
    cells[2] = Cell(gate);
    rows.row(cells);
  }
  rows.finish();
}

void print(Options& options, GatedRuns& runs, int status) {
  Output& out = options.out;
  if (options.format == Format::kJson) return out.write(gate_json(runs, status));
  if (options.format != Format::kTable) return print_rows(out, options.format, runs);
  for (const auto& run : runs) {
    if (&run != &runs.front()) out.write("\n");
    print_run(out, *run, options.database);
  }
  if (runs.size() > 1) {
    out.write("\n" + answer_of_status(status) + " of " + std::to_string(runs.size()) + " runs\n");
  }
}

/// Without the baseline itself, where others are there to be held against it.
std::vector<Run> runs_to_gate(SQLite::Database& db, const GateArguments& arguments,
                              const std::optional<Run>& baseline) {
  std::vector<Run> runs = resolve_runs(db, arguments.run, arguments.repeats);
  if (!baseline) return runs;
  std::erase(runs, *baseline);
  if (runs.empty()) {
    throw UsageError("run " + baseline->name +
                     " is not held against itself: name another --baseline");
  }
  return runs;
}

int gate(Options& options, const GateArguments& arguments) {
  std::array<Target, 4> targets{Target("--junit", arguments.junit),
                                Target("--markdown", arguments.markdown),
                                Target("--json", arguments.json), Target("--html", arguments.html)};
  int to_output = 0;
  for (const Target& target : targets) to_output += target.is_standard_output();
  if (to_output > 1)
    throw UsageError("only one of --junit, --markdown, --json and --html can be -");
  SQLite::Database db = open_for_reading(options.database);
  db.exec("BEGIN");  // one state of the database for all queries
  std::optional<Run> baseline;
  if (!arguments.baseline.empty()) baseline = resolve_run(db, arguments.baseline);
  QueryPool statements(db);
  GatedRuns runs;
  for (const Run& run : runs_to_gate(db, arguments, baseline)) {
    runs.push_back(std::make_unique<GatedRun>(
        statements, run, baseline ? std::optional(baseline->id) : std::nullopt, arguments.gate));
  }
  const int status = status_of(runs);
  auto& [junit, markdown, json, html] = targets;
  const Language language = arguments.language == "es" ? Language::kSpanish : Language::kEnglish;
  const auto page = [&] {
    return gate_page(db, options.database, runs, status, gate_json(runs, status), language);
  };
  if (junit.wanted()) junit.write(options.out, gate_junit(statements, options.database, runs));
  if (markdown.wanted()) markdown.write(options.out, gate_markdown(options.database, runs, status));
  if (json.wanted()) json.write(options.out, gate_json(runs, status));
  if (html.wanted()) html.write(options.out, page());
  for (Target& target : targets) target.keep();
  if (to_output > 0) return status;
  if (options.format == Format::kHtml) {
    options.out.write(page());
  } else {
    print(options, runs, status);
  }
  return status;
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
  auto arguments = std::make_shared<GateArguments>();
  add_run_option(*command, arguments->run, arguments->repeats)->required();
  command
      ->add_option("--baseline", arguments->baseline,
                   "Hold it against this run (default: the baseline of its lineage)")
      ->check(offers_answer(kListRuns))
      ->option_text("NAME");
  CLI::Option* strict = command->add_flag_callback(
      "--strict", [arguments] { arguments->gate = Gate::kStrict; },
      "Go by the strict verdict: rounding fails (default: the verdict that leads in firstfail)");
  command
      ->add_flag_callback(
          "--numeric", [arguments] { arguments->gate = Gate::kNumeric; },
          "Go by the numeric verdict: rounding passes")
      ->excludes(strict);
  add_file_option(*command, "--junit", arguments->junit,
                  "Write a JUnit report, a case per prompt and layer; - is standard output");
  add_file_option(*command, "--markdown", arguments->markdown,
                  "Write a summary of at most 40 lines for GitHub or GitLab");
  add_file_option(*command, "--json", arguments->json, "Write all of it as one JSON object");
  add_file_option(*command, "--html", arguments->html,
                  "Write a page for a browser, as --format html prints it");
  command->add_option("--lang", arguments->language, "Language of the page: en (default) or es")
      ->check(CLI::IsMember({"en", "es"}))
      ->option_text("LANG");
  command->callback([&options, arguments] {
    options.has_page = true;
    options.action = [&options, arguments] { return gate(options, *arguments); };
  });
}

}  // namespace greta
