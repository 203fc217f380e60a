#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <optional>

#include "cli/greta_db/commands.h"
#include "cli/greta_db/judged_run.h"
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

// ---- Many runs, a line each.

constexpr size_t kLinesWidth = 80;
constexpr size_t kSeparator = 2;
/// In the order in which runs are listed.
constexpr std::array<std::string_view, 6> kWorstFirst{"FAIL",        "INCOMPLETE", "INCOMPARABLE",
                                                      "NO_EVIDENCE", "UNJUDGED",   "PASS"};

/// Columns of names, which may be shortened.
enum Name { kRun, kCause, kPrompt, kNames };

/// The steps by which names are shortened until all fits: down to how many columns.
struct Step {
  Name name;
  size_t columns;
};
constexpr Step kSteps[] = {{kRun, 30},   {kPrompt, 10}, {kCause, 14}, {kRun, 26}, {kPrompt, 6},
                           {kCause, 12}, {kRun, 16},    {kCause, 8},  {kRun, 8}};

/// The verdicts of many runs as a table for readers: a line per run, those that fail first, then
/// those without a verdict, then those that pass; no wider than the terminal, and 80 columns where
/// there is none. Names that do not fit are shortened in the middle, which a line below says.
class RunLines {
 public:
  explicit RunLines(Output& out) : out_(out) {}
  void add(const JudgedRow& row);
  void print();

 private:
  struct Line {
    int rank;
    std::string run, verdict, cause, prompt;
    std::optional<int64_t> layer;
    int64_t pairs;
  };

  Output& out_;
  std::vector<Line> lines_;
  size_t with_texts_ = 0;  ///< runs beside which texts were not judged
};

void RunLines::add(const JudgedRow& row) {
  const Headline& head = row.head;
  const auto* rank = std::find(kWorstFirst.begin(), kWorstFirst.end(), head.verdict);
  lines_.push_back({static_cast<int>(rank - kWorstFirst.begin()), row.verdict.show("run"),
                    head.remark == kWithinRounding ? head.brief() : head.verdict,
                    utf8::printable(head.fail.cause), utf8::printable(head.fail.prompt),
                    head.fail.layer, row.verdict.number("pairs")});
  with_texts_ += row.verdict.has("unjudged_texts");
}

void RunLines::print() {
  std::stable_sort(lines_.begin(), lines_.end(),
                   [](const Line& a, const Line& b) { return a.rank < b.rank; });
  const std::vector<std::string> columns{"run",   "verdict", "first_fail",
                                         "layer", "prompt",  "pairs"};
  const auto names_of = [](const Line& line) {
    return std::array<const std::string*, kNames>{&line.run, &line.cause, &line.prompt};
  };
  size_t verdict = columns[1].size(), layer = columns[3].size(), pairs = columns[5].size();
  std::array<size_t, kNames> widths{columns[0].size(), columns[2].size(), columns[4].size()};
  for (const Line& line : lines_) {
    verdict = std::max(verdict, line.verdict.size());
    if (line.layer) layer = std::max(layer, std::to_string(*line.layer).size());
    pairs = std::max(pairs, std::to_string(line.pairs).size());
    const auto names = names_of(line);
    for (size_t i = 0; i < kNames; ++i) widths[i] = std::max(widths[i], display_width(*names[i]));
  }
  const size_t fixed = verdict + layer + pairs + kSeparator * (columns.size() - 1);
  const size_t allowed = out_.is_terminal() ? static_cast<size_t>(out_.width()) : kLinesWidth;
  for (const auto& [name, least] : kSteps) {
    const size_t total = fixed + widths[kRun] + widths[kCause] + widths[kPrompt];
    if (total <= allowed) break;
    widths[name] -= std::min(total - allowed, widths[name] - std::min(widths[name], least));
  }

  bool any_shortened = false;
  RowPrinter table(out_, Format::kTable, columns);
  for (const Line& line : lines_) {
    std::array<std::string, kNames> shown;
    const auto names = names_of(line);
    for (size_t i = 0; i < kNames; ++i) {
      shown[i] = shortened_to_width(*names[i], widths[i]);
      any_shortened |= shown[i] != *names[i];
    }
    table.row({shown[kRun], line.verdict, or_null(shown[kCause]), or_null(line.layer),
               or_null(shown[kPrompt]), line.pairs});
  }
  table.finish();
  if (with_texts_ > 0) {
    out_.write("texts beside " + std::to_string(with_texts_) +
               (with_texts_ == 1 ? " run were" : " runs were") +
               " not judged: --run NAME names them\n");
  }
  if (any_shortened) {
    out_.write("names with … are shortened: --format csv and json have them whole\n");
  }
}

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
    rows.emplace(options.out, options.format, verdict_query(statements, 0).column_names());
  if (json) options.out.write("[");

  std::map<std::string, int> verdicts;
  ExitOfVerdicts exit;
  bool first = true;
  for (const Run& run : runs) {
    const JudgedRow judged(statements, run, arguments.gate);
    const std::string later =
        named_all ? utf8::printable(later_text(later_names(db, run, runs))) : "";
    exit.add(judged.head.verdict);
    verdicts[judged.head.brief()]++;
    if (json) {
      options.out.write((first ? "\n" : ",\n") + json_of(statements, judged));
    } else if (blocks) {
      if (!first) options.out.write("\n");
      print_block(options.out, statements, judged, arguments.gate, later);
      if (arguments.map) print_terminal(maps_of(read_map(statements, run)), options.out);
    } else if (lines) {
      lines->add(judged);
    } else {
      rows->row(judged.verdict, judged.head);
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
  FirstFailArguments& a = add_action(*command, options, firstfail, Takes::kFleet);
  add_run_option(*command, a.run, a.repeats);
  add_gate_option(*command, a.gate);
  command->add_flag("--map", a.map,
                    "With it a map of every layer and trace point, prompts that look alike in one");
}

}  // namespace greta
