#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/greta_db/commands.h"
#include "cli/pages/compare_page.h"
#include "cli/report/markdown.h"
#include "cli/warehouse/asked_database.h"
#include "cli/warehouse/origin.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"
#include "common/json_text.h"
#include "common/utf8.h"

namespace greta {
namespace {

struct CompareArguments {
  std::string a, b, language = "en";
  Gate gate = Gate::kStrict;
  bool rows = false;
};

/// The first row that differs, as view diff_verdict places it.
struct Place {
  std::string prompt, phase, tensor;
  std::optional<int64_t> pos_id;
  int64_t layer = 0;
  // of that row
  std::string status, cls, hash_a, hash_b, measure, origin, segment, untraced_layers;
  std::optional<double> rel_l2;

  std::string text() const;
  std::string origin_text() const {
    Origin place;
    place.kind = origin;
    place.segment = segment;
    place.untraced_layers = untraced_layers;
    return place.text();
  }
  std::string json() const;
};

std::string Place::text() const {
  std::string text = status;
  if (!cls.empty()) text += " " + cls;
  text +=
      " at layer " + std::to_string(layer) + ", " + tensor + ", prompt " + prompt + ", " + phase;
  text += ", pos " + (pos_id ? std::to_string(*pos_id) : "-");
  if (rel_l2 && status != "NONFINITE") text += ", rel_l2 " + display_text(Cell(*rel_l2));
  return utf8::printable(text);
}

std::string Place::json() const {
  const auto known = [](const std::string& text) { return text.empty() ? Cell() : Cell(text); };
  JsonObject object;
  object.add("prompt", prompt).add("phase", phase);
  object.add("pos_id", pos_id ? Cell(*pos_id) : Cell()).add("layer", layer).add("tensor", tensor);
  object.add("status", status).add("class", known(cls));
  object.add("rel_l2", rel_l2 ? Cell(*rel_l2) : Cell());
  object.add("hash_a", known(hash_a)).add("hash_b", known(hash_b));
  object.add("origin", known(origin)).add("segment", known(segment));
  return object.str();
}

/// What the views say of two runs.
struct Difference {
  Run a, b;
  std::string verdict, numeric_verdict, why_not, caused_by, incomplete_why;
  int64_t compared = 0, rounding = 0, unknown = 0;
  std::optional<Place> first;   ///< that differs, in forward order
  std::optional<Place> beyond;  ///< that differs by more than rounding
  std::string total_json;

  const std::string& at(Gate gate) const {
    return gate == Gate::kNumeric ? numeric_verdict : verdict;
  }
  /// Whose verdict leads: the numeric one, unless nothing measures what differs.
  Gate lead() const {
    return unknown > 0 && numeric_verdict != "FAIL" ? Gate::kStrict : Gate::kNumeric;
  }
  bool begins_with_rounding() const { return first && beyond && first->text() != beyond->text(); }
  std::string headline() const {
    const std::string& words = at(lead());
    if (lead() == Gate::kStrict) return words;
    if (verdict == "FAIL" && numeric_verdict == "PASS") return words + " within rounding";
    return words + (rounding > 0 && begins_with_rounding() ? " beyond rounding" : "");
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

/// The counts of diff_verdict and diff_tensor, by name.
constexpr const char* kCounts[] = {"match",     "rounding",     "divergent", "unknown",
                                   "nonfinite", "incomparable", "only_a",    "only_b"};

std::string count_list() {
  std::string list;
  for (const char* name : kCounts) list += std::string(", ") + name;
  return list;
}

std::string json_of_counts(Query& query, int from, JsonObject object = {}) {
  for (const char* name : kCounts) object.add(name, query.integer(from++));
  return object.str();
}

/// The place in five columns from `column` on, where there is one.
std::optional<Place> place_at(Query& query, int column) {
  if (query.is_null(column + 4)) return std::nullopt;
  Place place;
  place.prompt = query.text(column);
  place.phase = query.text(column + 1);
  if (!query.is_null(column + 2)) place.pos_id = query.integer(column + 2);
  place.layer = query.integer(column + 3);
  place.tensor = query.text(column + 4);
  return place;
}

/// Looks a row up at its place: seen from the run that has it.
class PlaceQuery {
 public:
  explicit PlaceQuery(SQLite::Database& db)
      : query_(
            db,
            "SELECT s.status, s.class, CASE WHEN s.x_hash IS NOT NULL THEN printf('%llu', s.x_hash)"
            " END, CASE WHEN s.y_hash IS NOT NULL THEN printf('%llu', s.y_hash) END, s.measure,"
            " s.origin, s.numeric_origin, s.segment, s.untraced_layers, s.rel_l2"
            " FROM comparison_placed s WHERE s.axis = 'runs' AND s.run_id = ?1"
            " AND s.other_run_id = ?2 AND s.side IN (0, 1, 2) AND s.key_prompt_id ="
            " (SELECT id FROM prompt WHERE run_id = ?1 AND name = ?3)"
            " AND s.phase_id = (SELECT id FROM phase WHERE name = ?4) AND s.key_pos_id = ?5"
            " AND s.key_layer = ?6"
            " AND s.key_tensor_id = (SELECT id FROM tensor WHERE name = ?7) LIMIT 1") {}

  void fill(Place& place, const Run& a, const Run& b, Gate gate) {
    if (take(place, a, b, gate)) {
      if (place.status == "ALONE") place.status = "ONLY_A";
    } else if (take(place, b, a, gate)) {
      place.status = "ONLY_B";
      std::swap(place.hash_a, place.hash_b);
    }
  }

 private:
  bool take(Place& place, const Run& of, const Run& other, Gate gate) {
    query_.reset();
    query_.bind(1, of.id).bind(2, other.id).bind(3, place.prompt).bind(4, place.phase);
    query_.bind(5, place.pos_id.value_or(-1)).bind(6, place.layer).bind(7, place.tensor);
    if (!query_.step()) return false;
    const auto text = [this](int i) { return query_.is_null(i) ? "" : query_.text(i); };
    place.status = text(0);
    place.cls = text(1);
    place.hash_a = text(2);
    place.hash_b = text(3);
    place.measure = text(4);
    place.origin = text(gate == Gate::kNumeric ? 6 : 5);
    place.segment = text(7);
    place.untraced_layers = text(8);
    if (!query_.is_null(9)) place.rel_l2 = query_.cell(9).real;
    return true;
  }

  Query query_;
};

Difference difference_of(SQLite::Database& db, const Run& a, const Run& b) {
  Difference difference;
  difference.a = a;
  difference.b = b;
  Query verdict(
      db,
      "SELECT verdict, numeric_verdict, compared, ifnull(why_not, ''), ifnull(caused_by, ''), "
      "prompt,"
      " phase, pos_id, layer, tensor, numeric_prompt, numeric_phase, numeric_pos_id, numeric_layer,"
      " numeric_tensor" +
          count_list() +
          ", ifnull(incomplete_why, '')"
          " FROM bare_diff_verdict WHERE run_a_id = ? AND run_b_id = ?");
  verdict.bind(1, a.id).bind(2, b.id).step();
  difference.verdict = verdict.text(0);
  difference.numeric_verdict = verdict.text(1);
  difference.compared = verdict.integer(2);
  difference.why_not = verdict.text(3);
  difference.caused_by = verdict.text(4);
  difference.first = place_at(verdict, 5);
  difference.beyond = place_at(verdict, 10);
  difference.rounding = verdict.integer(16);
  difference.unknown = verdict.integer(18);
  difference.total_json = json_of_counts(verdict, 15);
  difference.incomplete_why = verdict.text(15 + static_cast<int>(std::size(kCounts)));
  if (!difference.first) return difference;
  PlaceQuery place(db);
  place.fill(*difference.first, a, b, Gate::kStrict);
  if (difference.beyond) place.fill(*difference.beyond, a, b, Gate::kNumeric);
  return difference;
}

/// Lines of what a reader is told above the counts.
std::vector<std::string> summary_lines(const Difference& difference, Gate gate) {
  std::vector<std::string> lines;
  if (!difference.why_not.empty()) {
    lines.push_back("cannot be compared: " + utf8::printable(difference.why_not));
  } else {
    lines.push_back("strict " + difference.verdict + ", numeric " + difference.numeric_verdict +
                    "; " + std::to_string(difference.compared) + " rows compared");
  }
  if (!difference.incomplete_why.empty()) {
    lines.push_back("not all of it may be there: " + utf8::printable(difference.incomplete_why));
  }
  const auto tell = [&](const char* what, const std::optional<Place>& place) {
    if (!place) return;
    lines.push_back(what + (": " + place->text()));
    if (const std::string origin = place->origin_text(); !origin.empty()) {
      lines.push_back("  " + origin);
    }
  };
  const bool two = difference.begins_with_rounding();
  if (two && gate == Gate::kNumeric) tell("first beyond rounding", difference.beyond);
  tell("first difference", difference.first);
  if (two && gate != Gate::kNumeric) tell("first beyond rounding", difference.beyond);
  if (!difference.caused_by.empty()) lines.push_back("  follows from " + difference.caused_by);
  if (difference.verdict == "NO_EVIDENCE") {
    lines.emplace_back(
        "no row of A has a comparable row in B (same prompt, phase, position, layer, tensor)");
  }
  return lines;
}

/// Rows of diff_tensor: a name, then counts.
class TensorCounts : public Query {
 public:
  TensorCounts(SQLite::Database& db, const Difference& difference)
      : Query(db,
              "SELECT tensor" + count_list() +
                  " FROM diff_tensor WHERE run_a_id = ? AND run_b_id = ? ORDER BY ord, tensor") {
    bind(1, difference.a.id).bind(2, difference.b.id);
  }
};

void print_json(Options& options, SQLite::Database& db, const Difference& difference) {
  TensorCounts counts(db, difference);
  std::vector<std::string> tensors;
  while (counts.step()) {
    tensors.push_back(json_of_counts(counts, 1, JsonObject().add("tensor", counts.text(0))));
  }
  JsonObject object;
  object.add("run_a", difference.a.name).add("run_b", difference.b.name);
  object.raw("lead", JsonObject()
                         .add("gate", std::string(gate_name(difference.lead())))
                         .add("verdict", difference.at(difference.lead()))
                         .add("headline", difference.headline())
                         .take());
  object.add("verdict", difference.verdict);
  object.add("numeric_verdict", difference.numeric_verdict);
  object.add("comparable", difference.why_not.empty());
  object.add("why_not", difference.why_not.empty() ? Cell() : Cell(difference.why_not));
  object.add("incomplete_why",
             difference.incomplete_why.empty() ? Cell() : Cell(difference.incomplete_why));
  object.add("compared", difference.compared).raw("total", difference.total_json);
  const auto json = [](const std::optional<Place>& place) {
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
void print_values(Options& options, SQLite::Database& db, const Difference& difference) {
  const std::optional<Place>& first = difference.beyond ? difference.beyond : difference.first;
  std::vector<std::string> columns{
      "run_a",        "run_b",        "verdict",     "numeric_verdict", "first_layer",
      "first_tensor", "first_prompt", "first_phase", "first_pos_id",    "tensor"};
  columns.insert(columns.end(), std::begin(kCounts), std::end(kCounts));
  std::vector<Cell> row{Cell(difference.a.name), Cell(difference.b.name), Cell(difference.verdict),
                        Cell(difference.numeric_verdict)};
  if (first) {
    row.insert(row.end(), {Cell(first->layer), Cell(first->tensor), Cell(first->prompt),
                           Cell(first->phase), first->pos_id ? Cell(*first->pos_id) : Cell()});
  }
  row.resize(columns.size());
  const size_t of_tensor = columns.size() - std::size(kCounts) - 1;
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

void print_page(Options& options, SQLite::Database& db, const Difference& difference, Gate gate) {
  const bool is_table = options.format == Format::kTable;
  const std::string lead = difference.headline() + exit_words(difference, gate);
  Output& out = options.out;
  const std::string names[] = {difference.a.name, difference.b.name};
  if (is_table) {
    const std::string& verdict = difference.at(difference.lead());
    out.write(colored(out, verdict) + lead.substr(verdict.size()) + "\n");
    out.write("A  " + utf8::printable(names[0]) + "\nB  " + utf8::printable(names[1]) + "\n");
  } else {
    out.write("**" + lead + "**\n\n");
    for (const int i : {0, 1}) {
      out.write(std::string("- ") + "AB"[i] + ": `" + in_code(names[i]) + "`\n");
    }
  }
  for (const std::string& line : summary_lines(difference, gate)) {
    out.write((is_table ? line : (line.starts_with(' ') ? "  " : "- ") + escaped(line)) + "\n");
  }
  out.write("\n");
  if (!difference.why_not.empty()) return;
  TensorCounts counts(db, difference);
  print_query(counts, out, options.format);
}

void print_rows_that_differ(Options& options, SQLite::Database& db, const Difference& difference) {
  Query rows(db,
             "SELECT d.prompt, d.phase, d.pos_id, d.layer, d.tensor, d.status, d.class, d.rel_l2,"
             " d.hash_a, d.hash_b FROM run_diff d"
             " WHERE d.run_a_id = ? AND d.run_b_id = ? AND d.status <> 'MATCH'"
             " ORDER BY d.forward_layer, d.tensor_id, d.pos_id, d.prompt, d.phase");
  rows.bind(1, difference.a.id).bind(2, difference.b.id);
  print_query(rows, options.out, options.format);
}

void print_html(Options& options, SQLite::Database& db, const Difference& difference,
                const CompareArguments& arguments) {
  ComparisonSummary summary;
  summary.verdict = difference.at(difference.lead());
  summary.headline = difference.headline();
  summary.lines = summary_lines(difference, arguments.gate);
  QueryPool statements(db);
  write_compare_page(statements, difference.a, difference.b, summary,
                     arguments.language == "es" ? Language::kSpanish : Language::kEnglish,
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
  const Difference difference = difference_of(db, a, b);
  if (options.format == Format::kHtml) {
    if (arguments.rows) throw UsageError("--rows lists rows: it is not for --format html");
    print_html(options, db, difference, arguments);
  } else if (arguments.rows) {
    print_rows_that_differ(options, db, difference);
  } else if (options.format == Format::kJson) {
    print_json(options, db, difference);
  } else if (options.format == Format::kTable || options.format == Format::kMarkdown) {
    print_page(options, db, difference, arguments.gate);
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
  command->add_option("a", arguments->a, "A run, as for --run")->required()->option_text("RUN_A");
  command->add_option("b", arguments->b, "Another run")->required()->option_text("RUN_B");
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
