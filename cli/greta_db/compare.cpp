#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/greta_db/canned.h"
#include "cli/greta_db/commands.h"
#include "cli/greta_db/judged_run.h"
#include "cli/show/report.h"
#include "cli/warehouse/asked_database.h"
#include "cli/warehouse/origin.h"
#include "cli/warehouse/sql_query.h"
#include "common/completion.h"
#include "common/json_text.h"

namespace greta {
namespace {

/// The first row that differs, as view diff_now places it.
struct DifferencePlace {
  std::string prompt, phase, tensor;
  std::optional<int64_t> pos_id;
  int64_t layer = 0;
  // of that row
  std::string status, cls, hash_a, hash_b, origin, segment, untraced_layers;
  std::optional<double> rel_l2;

  /// "DRIFT DIVERGENT at layer 3, attn_out, prompt p0, decode0, pos 37, rel_l2 0.5".
  std::string text(const Wording& words) const;
  /// "ORIGIN: between ..."; "" when not known.
  std::string origin_text(const Wording& words) const;
  std::string json() const;
};

/// Columns of counts, in diff_now and of the canned query diff_by_tensor.
constexpr const char* kDifferenceCounts[] = {"match",     "rounding",     "divergent", "unknown",
                                             "nonfinite", "incomparable", "only_a",    "only_b"};

/// A prompt that the runs do not have in common.
struct LeftOut {
  std::string prompt, reason;
};

/// The difference of two runs, as the views have it.
struct RunDifference {
  Run a, b;
  RunVerdict row;                         ///< of diff_now: of the prompts that both have
  std::optional<DifferencePlace> first;   ///< that differs, in forward order
  std::optional<DifferencePlace> beyond;  ///< that differs by more than rounding
  std::vector<LeftOut> left_out;
  std::string isa_a, isa_b;  ///< instruction sets, as the runs state them; "" unknown

  int64_t number(std::string_view column) const { return row.number(column); }
  std::string text(std::string_view column) const { return row.text(column); }
  std::string at(Gate gate) const { return std::string(row.at(gate)); }
  bool begins_with_rounding() const;
  /// Where it begins by a verdict: text, page and rows all say this. Beyond rounding, where
  /// anything is, unless equal bits are asked for.
  const std::optional<DifferencePlace>& begins(Gate gate) const {
    return gate != Gate::kStrict && beyond ? beyond : first;
  }
  /// As Headline has them.
  std::string remark(Gate gate) const;
  std::string headline(Gate gate = Gate::kVerdict) const;
  FailKind fail_kind(Gate gate) const;
};

/// The place in the columns that begin with `of`, where there is one.
std::optional<DifferencePlace> difference_place(const RunVerdict& row, const std::string& of) {
  if (!row.has(of + "tensor")) return std::nullopt;
  DifferencePlace place;
  place.prompt = row.text(of + "prompt");
  place.phase = row.text(of + "phase");
  place.tensor = row.text(of + "tensor");
  place.pos_id = row.cell(of + "pos_id").id();
  place.layer = row.number(of + "layer");
  return place;
}

/// Looks a row up at its place: seen from the run that has it.
class DifferencePlaceQuery {
 public:
  explicit DifferencePlaceQuery(SQLite::Database& db)
      : query_(
            db,
            "SELECT s.status, s.class, CASE WHEN s.x_hash IS NOT NULL THEN printf('%llu', s.x_hash)"
            " END, CASE WHEN s.y_hash IS NOT NULL THEN printf('%llu', s.y_hash) END,"
            " s.origin, s.numeric_origin, s.segment, s.untraced_layers, s.rel_l2"
            " FROM comparison_origin s WHERE s.run_id = ?1"
            " AND s.other_run_id = ?2 AND s.side IN (0, 1, 2) AND s.key_prompt_id ="
            " (SELECT id FROM prompt WHERE run_id = ?1 AND name = ?3)"
            " AND s.phase_id = (SELECT id FROM phase WHERE name = ?4) AND s.key_pos_id = ?5"
            " AND s.key_layer = ?6"
            " AND s.key_tensor_id = (SELECT id FROM tensor WHERE name = ?7) LIMIT 1") {}

  void fill(DifferencePlace& place, const Run& a, const Run& b, Gate gate) {
    if (take(place, a, b, gate)) {
      if (place.status == "ALONE") place.status = "ONLY_A";
    } else if (take(place, b, a, gate)) {
      place.status = "ONLY_B";
      std::swap(place.hash_a, place.hash_b);
    }
  }

 private:
  bool take(DifferencePlace& place, const Run& of, const Run& other, Gate gate) {
    query_.reset();
    query_.bind(1, of.id).bind(2, other.id).bind(3, place.prompt).bind(4, place.phase);
    query_.bind(5, place.pos_id.value_or(-1)).bind(6, place.layer).bind(7, place.tensor);
    if (!query_.step()) return false;
    place.status = query_.text(0);
    place.cls = query_.text(1);
    place.hash_a = query_.text(2);
    place.hash_b = query_.text(3);
    place.origin = query_.text(gate == Gate::kNumeric ? 5 : 4);
    place.segment = query_.text(6);
    place.untraced_layers = query_.text(7);
    place.rel_l2 = query_.cell(8).number();
    return true;
  }

  Query query_;
};

std::string DifferencePlace::text(const Wording& words) const {
  std::string text =
      words("compare.place", {cls.empty() ? status : status + " " + cls, std::to_string(layer),
                              tensor, prompt, phase, pos_id ? std::to_string(*pos_id) : "-"});
  if (rel_l2 && status != "NONFINITE") text += ", rel_l2 " + real_text(*rel_l2, "%.3g");
  return text;
}

std::string DifferencePlace::json() const {
  JsonObject object;
  object.add("prompt", prompt).add("phase", phase);
  object.add("pos_id", or_null(pos_id)).add("layer", layer).add("tensor", tensor);
  object.add("status", status).add("class", or_null(cls));
  object.add("rel_l2", rel_l2 ? Cell(*rel_l2) : Cell());
  object.add("hash_a", or_null(hash_a)).add("hash_b", or_null(hash_b));
  object.add("origin", or_null(origin)).add("segment", or_null(segment));
  return object.str();
}

std::string DifferencePlace::origin_text(const Wording& words) const {
  Origin place;
  place.kind = origin;
  place.segment = segment;
  place.untraced_layers = untraced_layers;
  return place.text(words("origin.tells"));
}

bool RunDifference::begins_with_rounding() const {
  return first && beyond && first->text(kEnglishWords) != beyond->text(kEnglishWords);
}

std::string RunDifference::remark(Gate gate) const {
  if (at(gate) == "PASS" && at(Gate::kStrict) == "FAIL") return kWithinRounding;
  const bool is_numeric = gate != Gate::kStrict && at(Gate::kNumeric) == "FAIL";
  return is_numeric && number("rounding") > 0 && begins_with_rounding() ? "beyond rounding" : "";
}

std::string RunDifference::headline(Gate gate) const {
  const std::string what = remark(gate);
  return what == kWithinRounding ? rounding_text("") : at(gate) + (what.empty() ? "" : " " + what);
}

FailKind RunDifference::fail_kind(Gate gate) const {
  if (at(gate) != "FAIL") return FailKind::kNone;
  if (at(Gate::kNumeric) != "FAIL" && number("unknown") > 0) return FailKind::kUnmeasured;
  const bool values = number("divergent") + number("nonfinite") > 0;
  const bool alone = number("only_a") + number("only_b") > 0;
  return alone && !values ? FailKind::kUnpaired : FailKind::kValues;
}

std::string isa_of_run(SQLite::Database& db, const Run& run) {
  Query isa(db,
            "SELECT value FROM attribute WHERE run_id = ? AND dim = 'isa' ORDER BY rank LIMIT 1");
  return isa.bind(1, run.id).step() ? isa.text(0) : "";
}

RunDifference difference_of_runs(SQLite::Database& db, const Run& a, const Run& b) {
  Query query(db,
              "SELECT verdict, strict_verdict, numeric_verdict, compared, why_not, caused_by,"
              " incomplete_why, prompt, phase, nullif(pos_id, -1) AS pos_id, layer,"
              " tensor, numeric_prompt, numeric_phase, nullif(numeric_pos_id, -1) AS"
              " numeric_pos_id, numeric_layer, numeric_tensor, match, rounding,"
              " divergent, unknown, nonfinite, incomparable, only_a, only_b"
              " FROM diff_now"
              " WHERE run_a_id = ? AND run_b_id = ? AND level = 'common'");
  query.bind(1, a.id).bind(2, b.id).step();
  RunVerdict row(query);
  RunDifference difference{a, b, std::move(row), {}, {}, {}, isa_of_run(db, a), isa_of_run(db, b)};
  Query left_out(db,
                 "SELECT prompt, reason FROM run_pair WHERE run_a_id = ? AND run_b_id = ?"
                 " AND prompt IS NOT NULL ORDER BY prompt_id");
  left_out.bind(1, a.id).bind(2, b.id);
  while (left_out.step()) difference.left_out.push_back({left_out.text(0), left_out.text(1)});
  difference.first = difference_place(difference.row, "");
  difference.beyond = difference_place(difference.row, "numeric_");
  if (!difference.first) return difference;
  DifferencePlaceQuery place(db);
  place.fill(*difference.first, a, b, Gate::kStrict);
  if (difference.beyond) place.fill(*difference.beyond, a, b, Gate::kNumeric);
  return difference;
}

// ---- The command.

struct CompareArguments {
  std::string a, b;
  Language language = Language::kEnglish;
  Gate gate = Gate::kVerdict;
  bool rows = false;
};

/// The sentences above the counts.
std::vector<Line> summary_lines(const RunDifference& difference, Gate gate, const Wording& words) {
  std::vector<Line> lines;
  if (difference.row.has("why_not")) {
    lines.push_back(words.line("compare.why_not", {difference.text("why_not")}));
  } else {
    lines.push_back(words.line(
        "compare.verdicts", {difference.text("strict_verdict"), difference.text("numeric_verdict"),
                             difference.row.show("compared")}));
  }
  if (difference.row.has("incomplete_why"))
    lines.push_back(words.line("compare.incomplete", {difference.text("incomplete_why")}));
  if (difference.isa_a != difference.isa_b && !difference.isa_a.empty() &&
      !difference.isa_b.empty() && difference.at(Gate::kStrict) == "FAIL") {
    lines.push_back(words.line("compare.isa", {difference.isa_a, difference.isa_b}));
  }
  std::string left_out;
  for (const LeftOut& one : difference.left_out) {
    left_out += (left_out.empty() ? "" : ", ") + one.prompt + " (" + one.reason + ")";
  }
  if (!left_out.empty()) lines.push_back(words.line("compare.left_out", {left_out}));
  const auto tell = [&](TextId what, const std::optional<DifferencePlace>& place) {
    if (!place) return;
    lines.push_back(words.line(what, {place->text(words)}));
    if (const std::string origin = place->origin_text(words); !origin.empty())
      lines.emplace_back(origin);
  };
  const bool two = difference.begins_with_rounding();
  const bool strict = gate == Gate::kStrict;
  tell(two && !strict ? TextId("compare.beyond") : TextId("compare.first"),
       difference.begins(gate));
  if (two && strict) tell("compare.beyond", difference.beyond);
  if (two && !strict) tell("compare.first", difference.first);
  if (difference.row.has("caused_by"))
    lines.push_back(words.line("compare.follows", {difference.text("caused_by")}));
  if (difference.at(Gate::kVerdict) == "NO_EVIDENCE") lines.push_back(words.line("compare.none"));
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
  const RunVerdict& row = difference.row;
  JsonObject object, total;
  object.add("run_a", difference.a.name).add("run_b", difference.b.name);
  object.add("verdict", row.cell("verdict")).add("headline", difference.headline());
  for (const char* key : {"strict_verdict", "numeric_verdict"}) object.add(key, row.cell(key));
  object.add("comparable", !row.has("why_not"));
  for (const char* key : {"why_not", "incomplete_why", "compared"}) object.add(key, row.cell(key));
  object.add("isa_a", or_null(difference.isa_a)).add("isa_b", or_null(difference.isa_b));
  std::vector<std::string> left_out;
  for (const LeftOut& one : difference.left_out) {
    left_out.push_back(JsonObject().add("prompt", one.prompt).add("reason", one.reason).str());
  }
  object.raw("left_out", json_array(left_out));
  for (const char* name : kDifferenceCounts) total.add(name, row.cell(name));
  object.raw("total", total.str());
  const auto json = [](const std::optional<DifferencePlace>& place) {
    return place ? place->json() : "null";
  };
  object.raw("first_difference", json(difference.first));
  object.raw("first_beyond_rounding", json(difference.beyond));
  TensorCounts counts(db, difference);
  object.add("caused_by", row.cell("caused_by")).raw("by_tensor", json_rows(counts));
  options.out.write(object.str() + "\n");
}

/// Verdict, names and first difference stand in every row, for who reads one; there is one at
/// least.
void print_values(Options& options, SQLite::Database& db, const RunDifference& difference,
                  Gate gate) {
  const std::optional<DifferencePlace>& first = difference.begins(gate);
  std::vector<std::string> columns{"run_a",          "run_b",           "verdict",
                                   "strict_verdict", "numeric_verdict", "first_layer",
                                   "first_tensor",   "first_prompt",    "first_phase",
                                   "first_pos_id",   "tensor"};
  columns.insert(columns.end(), std::begin(kDifferenceCounts), std::end(kDifferenceCounts));
  std::vector<Cell> row{Cell(difference.a.name), Cell(difference.b.name)};
  for (const char* key : {"verdict", "strict_verdict", "numeric_verdict"})
    row.push_back(difference.row.cell(key));
  if (first) {
    row.insert(row.end(), {Cell(first->layer), Cell(first->tensor), Cell(first->prompt),
                           Cell(first->phase), or_null(first->pos_id)});
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
  if (difference.row.has("why_not")) return;
  TensorCounts counts(db, difference);
  print_query(counts, options.out, options.format);
}

void print_rows_that_differ(Options& options, SQLite::Database& db, const RunDifference& difference,
                            Gate gate) {
  Query rows(db,
             "SELECT d.prompt, d.phase, d.pos_id, d.layer, d.tensor, d.status, d.class, d.rel_l2,"
             " d.hash_a, d.hash_b FROM run_diff d"
             " WHERE d.run_a_id = ?1 AND d.run_b_id = ?2 AND d.status <> 'MATCH'"
             " AND d.prompt NOT IN (SELECT p.prompt FROM run_pair p WHERE p.run_a_id = ?1"
             " AND p.run_b_id = ?2 AND p.prompt IS NOT NULL)"
             " ORDER BY d.prompt IS ? AND d.phase IS ? AND d.pos_id IS ? AND d.layer IS ?"
             " AND d.tensor IS ? DESC, d.status = 'INCOMPARABLE',"
             " d.forward_layer, d.tensor_id, d.pos_id, d.prompt, d.phase");
  rows.bind(1, difference.a.id).bind(2, difference.b.id);
  if (const std::optional<DifferencePlace>& first = difference.begins(gate)) {
    rows.bind(3, first->prompt)
        .bind(4, first->phase)
        .bind(5, first->pos_id ? Value(*first->pos_id) : Value(nullptr));
    rows.bind(6, first->layer).bind(7, first->tensor);
  }
  print_query(rows, options.out, options.format);
}

void print_html(Options& options, SQLite::Database& db, const RunDifference& difference,
                const CompareArguments& arguments) {
  const std::optional<DifferencePlace>& first = difference.begins(arguments.gate);
  const ComparisonSummary summary{
      .verdict = difference.at(arguments.gate),
      .kind = difference.fail_kind(arguments.gate),
      .remark = difference.remark(arguments.gate),
      .lines = summary_lines(difference, arguments.gate, Wording(arguments.language)),
      .first = first ? FailPlace{.cause = "",
                                 .root_cause = "",
                                 .prompt = first->prompt,
                                 .tensor = first->tensor,
                                 .layer = first->layer,
                                 .pos = first->pos_id}
                     : FailPlace{},
      .phase = first ? first->phase : ""};
  QueryPool statements(db);
  write_compare_page(statements, difference.a, difference.b, summary, arguments.language,
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
    print_rows_that_differ(options, db, difference, arguments.gate);
  } else if (options.format == Format::kJson) {
    print_json(options, db, difference);
  } else if (options.for_readers()) {
    print_summary(options, db, difference, arguments.gate);
  } else {
    print_values(options, db, difference, arguments.gate);
  }
  return exit_of_verdict(difference.at(arguments.gate));
}

}  // namespace

void add_compare_command(CLI::App& app, Options& options) {
  CLI::App* command =
      app.add_subcommand("compare", "What differs between two runs, row by row of the same phase");
  CompareArguments& a = add_action(*command, options, compare, Takes::kFleetAndPage);
  command->add_option("a", a.a, "A run, as for --run")
      ->required()
      ->check(offers_rows(kListRuns))
      ->option_text("RUN_A");
  command->add_option("b", a.b, "Another run")
      ->required()
      ->check(offers_rows(kListRuns))
      ->option_text("RUN_B");
  add_gate_option(*command, a.gate);
  command->add_flag("--rows", a.rows,
                    "Instead, every row that differs: the first difference, then forward order, and"
                    " last what nothing decides");
  add_language_option(*command, a.language, "Language of --format html: en (default) or es");
}

}  // namespace greta
