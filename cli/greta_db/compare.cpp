#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/greta_db/canned.h"
#include "cli/greta_db/commands.h"
#include "cli/greta_db/run_difference.h"
#include "cli/show/report.h"
#include "cli/warehouse/asked_database.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"
#include "common/json_text.h"

namespace greta {
namespace {

struct CompareArguments {
  std::string a, b, language = "en";
  Gate gate = Gate::kVerdict;
  bool rows = false;
};

std::string json_of_counts(const DifferenceCounts& counts, JsonObject object = {}) {
  for (size_t i = 0; i < counts.size(); ++i) object.add(kDifferenceCounts[i], counts[i]);
  return object.str();
}

/// The sentences above the counts.
std::vector<Line> summary_lines(const RunDifference& difference, Gate gate, const Wording& words) {
  std::vector<Line> lines;
  if (!difference.why_not.empty()) {
    lines.push_back(words.line("compare.why_not", {difference.why_not}));
  } else {
    lines.push_back(
        words.line("compare.verdicts", {difference.strict_verdict, difference.numeric_verdict,
                                        std::to_string(difference.compared)}));
  }
  if (!difference.incomplete_why.empty())
    lines.push_back(words.line("compare.incomplete", {difference.incomplete_why}));
  const auto tell = [&](TextId what, const std::optional<DifferencePlace>& place) {
    if (!place) return;
    lines.push_back(words.line(what, {place->text(words)}));
    if (const std::string origin = place->origin_text(words); !origin.empty())
      lines.emplace_back(origin);
  };
  const bool two = difference.begins_with_rounding();
  const bool strict = gate == Gate::kStrict;
  if (two && !strict) tell("compare.beyond", difference.beyond);
  tell("compare.first", difference.first);
  if (two && strict) tell("compare.beyond", difference.beyond);
  if (!difference.caused_by.empty())
    lines.push_back(words.line("compare.follows", {difference.caused_by}));
  if (difference.verdict == "NO_EVIDENCE") lines.push_back(words.line("compare.none"));
  return lines;
}

/// Rows of the canned query diff_by_tensor: a name, then counts.
class TensorCounts : public Query {
 public:
  TensorCounts(SQLite::Database& db, const RunDifference& difference)
      : Query(db, canned_query("diff_by_tensor").sql) {
    bind(1, difference.a.name).bind(2, difference.b.name);
  }
};

void print_json(Options& options, SQLite::Database& db, const RunDifference& difference) {
  TensorCounts counts(db, difference);
  std::vector<std::string> tensors;
  while (counts.step()) {
    tensors.push_back(
        json_of_counts(difference_counts(counts, 1), JsonObject().add("tensor", counts.text(0))));
  }
  JsonObject object;
  object.add("run_a", difference.a.name).add("run_b", difference.b.name);
  object.add("verdict", difference.verdict).add("headline", difference.headline());
  object.add("strict_verdict", difference.strict_verdict);
  object.add("numeric_verdict", difference.numeric_verdict);
  object.add("comparable", difference.why_not.empty());
  object.add("why_not", difference.why_not.empty() ? Cell() : Cell(difference.why_not));
  object.add("incomplete_why",
             difference.incomplete_why.empty() ? Cell() : Cell(difference.incomplete_why));
  object.add("compared", difference.compared).raw("total", json_of_counts(difference.counts));
  const auto json = [](const std::optional<DifferencePlace>& place) {
    return place ? place->json() : "null";
  };
  object.raw("first_difference", json(difference.first));
  object.raw("first_beyond_rounding", json(difference.beyond));
  object.add("caused_by", difference.caused_by.empty() ? Cell() : Cell(difference.caused_by));
  object.raw("by_tensor", json_array(tensors));
  options.out.write(object.str() + "\n");
}

/// Verdict, names and first difference stand in every row, for who reads one; there is one at
/// least.
void print_values(Options& options, SQLite::Database& db, const RunDifference& difference) {
  const std::optional<DifferencePlace>& first =
      difference.beyond ? difference.beyond : difference.first;
  std::vector<std::string> columns{"run_a",          "run_b",           "verdict",
                                   "strict_verdict", "numeric_verdict", "first_layer",
                                   "first_tensor",   "first_prompt",    "first_phase",
                                   "first_pos_id",   "tensor"};
  columns.insert(columns.end(), std::begin(kDifferenceCounts), std::end(kDifferenceCounts));
  std::vector<Cell> row{Cell(difference.a.name), Cell(difference.b.name), Cell(difference.verdict),
                        Cell(difference.strict_verdict), Cell(difference.numeric_verdict)};
  if (first) {
    row.insert(row.end(), {Cell(first->layer), Cell(first->tensor), Cell(first->prompt),
                           Cell(first->phase), first->pos_id ? Cell(*first->pos_id) : Cell()});
  }
  row.resize(columns.size());
  const size_t of_tensor = columns.size() - std::size(kDifferenceCounts) - 1;
  RowPrinter printer(options.out, options.format, columns);
  TensorCounts counts(db, difference);
  bool any = false;
  for (; counts.step(); any = true) {
    for (size_t i = of_tensor; i < row.size(); ++i) {
      row[i] = counts.cell(static_cast<int>(i - of_tensor));
    }
    printer.row(row);
  }
  if (!any) printer.row(row);
  printer.finish();
}

void print_summary(Options& options, SQLite::Database& db, const RunDifference& difference,
                   Gate gate) {
  const bool is_table = options.format == Format::kTable;
  const Line a = is_table ? Line(difference.a.name) : code(difference.a.name),
             b = is_table ? Line(difference.b.name) : code(difference.b.name);
  const Line head = headline_of(difference.at(gate), difference.remark(gate), "", kEnglishWords);
  const Blocks blocks{Heading{3, "", head}, FactList{{{"A", a}, {"B", b}}},
                      List{summary_lines(difference, gate, kEnglishWords)}};
  if (is_table) {
    print_terminal(blocks, options.out);
    options.out.write("\n");
  } else {
    print_markdown(blocks, [&](std::string_view text) { options.out.write(text); });
  }
  if (!difference.why_not.empty()) return;
  TensorCounts counts(db, difference);
  print_query(counts, options.out, options.format);
}

void print_rows_that_differ(Options& options, SQLite::Database& db,
                            const RunDifference& difference) {
  Query rows(db,
             "SELECT d.prompt, d.phase, d.pos_id, d.layer, d.tensor, d.status, d.class, d.rel_l2,"
             " d.hash_a, d.hash_b FROM run_diff d"
             " WHERE d.run_a_id = ? AND d.run_b_id = ? AND d.status <> 'MATCH'"
             " ORDER BY d.forward_layer, d.tensor_id, d.pos_id, d.prompt, d.phase");
  rows.bind(1, difference.a.id).bind(2, difference.b.id);
  print_query(rows, options.out, options.format);
}

void print_html(Options& options, SQLite::Database& db, const RunDifference& difference,
                const CompareArguments& arguments) {
  const Language language = language_named(arguments.language);
  const ComparisonSummary summary{
      .verdict = difference.at(arguments.gate),
      .kind = difference.fail_kind(arguments.gate),
      .remark = difference.remark(arguments.gate),
      .lines = summary_lines(difference, arguments.gate, Wording(language))};
  QueryPool statements(db);
  write_compare_page(statements, difference.a, difference.b, summary, language,
                     [&](std::string_view text) { options.out.write(text); });
}

int compare(Options& options, const CompareArguments& arguments) {
  Question question;
  question.runs = {arguments.a, arguments.b};
  question.rows = true;
  AskedDatabase asked(options.database, question);
  SQLite::Database& db = asked.db();
  sort_on_disk(db);
  const Run a = resolve_run(db, arguments.a), b = resolve_run(db, arguments.b);
  if (a == b) {
    throw UsageError("run " + a.name + " is not compared with itself: `greta-db firstfail --run " +
                     a.name + "` compares its prefill with its decode");
  }
  const RunDifference difference = difference_of_runs(db, a, b);
  if (options.format == Format::kHtml) {
    if (arguments.rows) throw UsageError("--rows lists rows: it is not for --format html");
    print_html(options, db, difference, arguments);
  } else if (arguments.rows) {
    print_rows_that_differ(options, db, difference);
  } else if (options.format == Format::kJson) {
    print_json(options, db, difference);
  } else if (options.format == Format::kTable || options.format == Format::kMarkdown) {
    print_summary(options, db, difference, arguments.gate);
  } else {
    print_values(options, db, difference);
  }
  return exit_of_verdict(difference.at(arguments.gate));
}

}  // namespace

void add_compare_command(CLI::App& app, Options& options) {
  CLI::App* command =
      app.add_subcommand("compare", "What differs between two runs, row by row of the same phase");
  auto arguments = std::make_shared<CompareArguments>();
  command->add_option("a", arguments->a, "A run, as for --run")
      ->required()
      ->option_text("RUN_A")
      ->check(offers_rows(kListRuns));
  command->add_option("b", arguments->b, "Another run")
      ->required()
      ->option_text("RUN_B")
      ->check(offers_rows(kListRuns));
  add_gate_option(*command, arguments->gate);
  command->add_flag("--rows", arguments->rows, "Instead, every row that differs, in forward order");
  command
      ->add_option("--lang", arguments->language, "Language of --format html: en (default) or es")
      ->check(CLI::IsMember({"en", "es"}))
      ->option_text("LANG");
  command->callback([&options, arguments] {
    options.has_page = true;
    options.asks_fleet = true;
    options.action = [&options, arguments] { return compare(options, *arguments); };
  });
}

}  // namespace greta
