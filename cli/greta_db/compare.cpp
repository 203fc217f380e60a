#include <map>
#include <memory>
#include <optional>

#include "cli/greta_db/commands.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"
#include "common/json_text.h"
#include "common/utf8.h"
#include "db/database.h"

namespace greta {
namespace {

struct CompareArguments {
  std::string a, b;
  Gate gate = Gate::kStrict;
  bool rows = false;
};

/// As far as run_diff knows it.
constexpr std::string_view kForward =
    " ORDER BY d.forward_layer, d.tensor_id, d.pos_id, d.prompt, d.phase";

struct Counts {
  int64_t match = 0, rounding = 0, divergent = 0, unknown = 0, nonfinite = 0, incomparable = 0,
          only_a = 0, only_b = 0;

  Counts& operator+=(const Counts& o) {
    match += o.match;
    rounding += o.rounding;
    divergent += o.divergent;
    unknown += o.unknown;
    nonfinite += o.nonfinite;
    incomparable += o.incomparable;
    only_a += o.only_a;
    only_b += o.only_b;
    return *this;
  }

  void add(std::string_view status, std::string_view grade, int64_t n) {
    if (status == "MATCH")
      match += n;
    else if (status == "NONFINITE")
      nonfinite += n;
    else if (status == "INCOMPARABLE")
      incomparable += n;
    else if (status == "ONLY_A")
      only_a += n;
    else if (status == "ONLY_B")
      only_b += n;
    else if (grade == "ROUNDING")
      rounding += n;
    else if (grade == "DIVERGENT")
      divergent += n;
    else
      unknown += n;
  }
};

struct Difference {
  std::map<std::pair<int64_t, std::string>, Counts> by_tensor;  ///< in forward order
  Counts total;
  std::string verdict, numeric_verdict;
  int64_t compared = 0;
  std::string first_json = "null", first_text;    ///< the first that differs
  std::string beyond_json = "null", beyond_text;  ///< the first that differs by more than rounding

  const std::string& at(Gate gate) const {
    return gate == Gate::kNumeric ? numeric_verdict : verdict;
  }
  /// Whose verdict leads: the numeric one, unless nothing measures what differs.
  Gate lead() const {
    return total.unknown > 0 && numeric_verdict != "FAIL" ? Gate::kStrict : Gate::kNumeric;
  }
  /// What a reader is told beside that verdict; "".
  std::string remark() const {
    if (lead() == Gate::kStrict) return "";
    if (verdict == "FAIL" && numeric_verdict == "PASS") return " within rounding";
    const bool behind_rounding = total.rounding > 0 && !beyond_text.empty();
    return behind_rounding && beyond_text != first_text ? " beyond rounding" : "";
  }
};

/// Which verdict decides the exit status where the other one would give another; else "".
std::string exit_words(const Difference& difference, Gate gate) {
  const Gate other = gate == Gate::kStrict ? Gate::kNumeric : Gate::kStrict;
  const int status = exit_of_verdict(difference.at(gate));
  const int of_other = exit_of_verdict(difference.at(other));
  if (status == of_other) return "";
  return "; exit status " + std::to_string(status) + " follows the " +
         std::string(gate_name(gate)) + " verdict, --gate " + std::string(gate_name(other)) +
         " gives " + std::to_string(of_other);
}

void bind_runs(Query& query, const Run& a, const Run& b) { query.bind(1, a.id).bind(2, b.id); }

/// The first row in forward order that meets the condition; the texts stay as they are without one.
void first_difference(SQLite::Database& db, const Run& a, const Run& b, const char* condition,
                      std::string& json, std::string& text) {
  Query first(db,
              "SELECT d.prompt, d.phase, d.pos_id, d.layer, d.tensor, d.status, d.class, d.rel_l2,"
              " d.hash_a, d.hash_b FROM run_diff d WHERE d.run_a_id = ? AND d.run_b_id = ? AND " +
                  std::string(condition) + std::string(kForward) + " LIMIT 1");
  bind_runs(first, a, b);
  if (!first.step()) return;
  JsonObject object;
  std::vector<std::string> names = first.column_names();
  for (int i = 0; i < first.columns(); i++)
    object.add(names[static_cast<size_t>(i)], first.cell(i));
  json = object.str();
  auto show = [&](int column) { return display_text(first.cell(column)); };
  text = show(5) + (first.is_null(6) ? "" : " " + show(6)) + " at layer " + show(3) + ", " +
         show(4) + ", prompt " + show(0) + ", " + show(1) + ", pos " + show(2) +
         (first.is_null(7) || first.text(5) == "NONFINITE" ? "" : ", rel_l2 " + show(7));
}

Difference difference_of(SQLite::Database& db, const Run& a, const Run& b) {
  Difference difference;
  Query counts(db,
               "SELECT tensor_id, tensor, status, class, count(*) FROM run_diff"
               " WHERE run_a_id = ? AND run_b_id = ? GROUP BY 1, 2, 3, 4");
  bind_runs(counts, a, b);
  while (counts.step()) {
    Counts one;
    one.add(counts.cell(2).text, counts.cell(3).text, counts.integer(4));
    difference.by_tensor[{counts.integer(0), counts.text(1)}] += one;
    difference.total += one;
  }
  Query verdict(db,
                "SELECT verdict, numeric_verdict, compared FROM diff_verdict"
                " WHERE run_a_id = ? AND run_b_id = ?");
  bind_runs(verdict, a, b);
  verdict.step();
  difference.verdict = verdict.text(0);
  difference.numeric_verdict = verdict.text(1);
  difference.compared = verdict.integer(2);
  first_difference(db, a, b, "d.status IN ('DRIFT', 'NONFINITE')", difference.first_json,
                   difference.first_text);
  first_difference(db, a, b, "(d.class = 'DIVERGENT' OR d.status = 'NONFINITE')",
                   difference.beyond_json, difference.beyond_text);
  return difference;
}

std::vector<Cell> cells_of(const Counts& c) {
  return {c.match,     c.rounding,     c.divergent, c.unknown,
          c.nonfinite, c.incomparable, c.only_a,    c.only_b};
}

const std::vector<std::string> kCountNames = {"match",     "rounding",     "divergent", "unknown",
                                              "nonfinite", "incomparable", "only_a",    "only_b"};

void print_counts(RowPrinter& printer, const Difference& difference) {
  for (const auto& [tensor, counts] : difference.by_tensor) {
    std::vector<Cell> row{Cell(tensor.second)};
    for (const Cell& cell : cells_of(counts)) row.push_back(cell);
    printer.row(row);
  }
  printer.finish();
}

std::string json_of(const Counts& counts, JsonObject object = {}) {
  std::vector<Cell> cells = cells_of(counts);
  for (size_t i = 0; i < cells.size(); i++) object.add(kCountNames[i], cells[i]);
  return object.str();
}

void print_json(Output& out, const Run& a, const Run& b, const Difference& difference) {
  std::vector<std::string> tensors;
  for (const auto& [tensor, counts] : difference.by_tensor) {
    tensors.push_back(json_of(counts, JsonObject().add("tensor", tensor.second)));
  }
  JsonObject object;
  const std::string& lead = difference.at(difference.lead());
  object.add("run_a", a.name).add("run_b", b.name);
  object.raw("lead", JsonObject()
                         .add("gate", std::string(gate_name(difference.lead())))
                         .add("verdict", lead)
                         .add("headline", lead + difference.remark())
                         .take());
  object.add("verdict", difference.verdict);
  object.add("numeric_verdict", difference.numeric_verdict);
  object.add("compared", difference.compared).raw("total", json_of(difference.total));
  object.raw("first_difference", difference.first_json);
  object.raw("first_beyond_rounding", difference.beyond_json);
  object.raw("by_tensor", json_array(tensors));
  out.write(object.str() + "\n");
}

void print_table(Output& out, const Run& a, const Run& b, const Difference& difference, Gate gate) {
  std::string strict = utf8::printable(difference.verdict);
  std::string numeric = utf8::printable(difference.numeric_verdict);
  out.write(colored(out, utf8::printable(difference.at(difference.lead()))) + difference.remark() +
            exit_words(difference, gate) + "\n");
  out.write("A  " + utf8::printable(a.name) + "\nB  " + utf8::printable(b.name) + "\n");
  out.write("strict " + colored(out, strict) + ", numeric " + colored(out, numeric) + "; " +
            std::to_string(difference.compared) + " rows compared\n");
  const std::string first =
      difference.first_text.empty() ? "" : "first difference: " + difference.first_text + "\n";
  const std::string beyond =
      difference.beyond_text.empty() || difference.beyond_text == difference.first_text
          ? ""
          : "first beyond rounding: " + difference.beyond_text + "\n";
  out.write(gate == Gate::kNumeric ? beyond + first : first + beyond);
  if (strict == "NO_EVIDENCE") {
    out.write(
        "no row of A has a comparable row in B (same prompt, phase, position, layer, tensor)\n");
  }
  out.write("\n");
}

void print_rows_that_differ(Options& options, SQLite::Database& db, const Run& a, const Run& b) {
  Query rows(db,
             "SELECT d.prompt, d.phase, d.pos_id, d.layer, d.tensor, d.status, d.class, d.rel_l2,"
             " d.hash_a, d.hash_b FROM run_diff d"
             " WHERE d.run_a_id = ? AND d.run_b_id = ? AND d.status <> 'MATCH'" +
                 std::string(kForward));
  bind_runs(rows, a, b);
  print_query(rows, options.out, options.format);
}

int compare(Options& options, const CompareArguments& arguments) {
  SQLite::Database db = open_for_reading(options.database);
  sort_on_disk(db);
  Run a = resolve_run(db, arguments.a), b = resolve_run(db, arguments.b);
  Difference difference = difference_of(db, a, b);
  if (arguments.rows) {
    print_rows_that_differ(options, db, a, b);
  } else if (options.format == Format::kJson) {
    print_json(options.out, a, b, difference);
  } else {
    if (options.format == Format::kTable) {
      print_table(options.out, a, b, difference, arguments.gate);
    }
    std::vector<std::string> columns{"tensor"};
    columns.insert(columns.end(), kCountNames.begin(), kCountNames.end());
    RowPrinter printer(options.out, options.format, columns);
    print_counts(printer, difference);
  }
  return exit_of_verdict(difference.at(arguments.gate));
}

}  // namespace

void add_compare_command(CLI::App& app, Options& options) {
  CLI::App* command =
      app.add_subcommand("compare", "What differs between two runs, row by row of the same phase");
  auto arguments = std::make_shared<CompareArguments>();
  command->add_option("a", arguments->a, "A run, as for --run")->required()->option_text("RUN_A");
  command->add_option("b", arguments->b, "Another run")->required()->option_text("RUN_B");
  add_gate_option(*command, arguments->gate);
  command->add_flag("--rows", arguments->rows, "Instead, every row that differs, in forward order");
  command->callback([&options, arguments] {
    options.action = [&options, arguments] { return compare(options, *arguments); };
  });
}

}  // namespace greta
