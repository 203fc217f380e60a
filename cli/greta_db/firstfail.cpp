#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>

#include "cli/greta_db/commands.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"
#include "cli/warehouse/verdict.h"
#include "common/json_text.h"
#include "common/shell_word.h"
#include "common/utf8.h"
#include "db/database.h"

namespace greta {
namespace {

/// More runs than this, when none was named, show as one line each.
constexpr size_t kMaxBlocks = 12;

struct FirstFailArguments {
  std::string run;
  Repeats repeats = Repeats::kAll;
  Gate gate = Gate::kStrict;
};

/// The column numeric_origin of a view, or of its twin, which leaves it out: it is costly to
/// prepare.
std::string origin_of(const std::string& kept, const char* prompt_id) {
  if (kept.empty()) return "numeric_origin";
  return std::string("(SELECT o.numeric_origin FROM kept_origin o WHERE o.run_id = v.run_id") +
         " AND o.prompt_id = " + prompt_id + " LIMIT 1) AS numeric_origin";
}

std::string verdict_sql(std::string columns, const std::string& kept) {
  constexpr std::string_view kOrigin = "numeric_origin";
  if (const size_t at = columns.find(kOrigin); at != std::string::npos) {
    columns.replace(at, kOrigin.size(), origin_of(kept, "0"));
  }
  return "SELECT " + columns + " FROM " + kept + "run_verdict v WHERE run_id = ?";
}

/// Columns of first_fail; numeric_origin is NULL in all of them unless it is asked for.
std::string by_prompt_sql(bool with_origin, const std::string& kept) {
  return "SELECT run, prompt, token_id, pos_id, layer, tensor, first_fail, root_cause, details,"
         " first_drift_layer, first_drift_tensor, first_drift_cause, numeric_first_fail,"
         " numeric_layer, numeric_tensor, " +
         (with_origin ? origin_of(kept, "v.prompt_id") : "NULL AS numeric_origin") +
         ", evidence FROM " + kept + "first_fail v WHERE run_id = ? ORDER BY prompt_id";
}

/// Whether the verdicts of all these runs are kept.
bool are_kept(SQLite::Database& db, const std::vector<Run>& runs) {
  Query unjudged(db, "SELECT 1 FROM unjudged_run WHERE run_id = ?");
  return std::none_of(runs.begin(), runs.end(), [&unjudged](const Run& run) {
    unjudged.reset();
    unjudged.bind(1, run.id);
    return unjudged.step();
  });
}

/// The statements of a verdict. Filters are on run ids, so that they reach what is kept and the
/// keys. What costs most of a single verdict is preparing them: each is prepared when first needed,
/// and where all is kept they ask the twins of the views, which work nothing out.
class Queries {
 public:
  Queries(SQLite::Database& db, std::string_view verdict_columns, bool kept)
      : verdict(db, verdict_sql(std::string(verdict_columns), kept ? "kept_" : "")),
        db_(db),
        kept_(kept ? "kept_" : "") {}

  Query verdict;  ///< one row of the columns asked for

  Query& breakdown(int64_t run_id) {
    return bound(
        breakdown_,
        "SELECT cause, count, percent FROM " + kept_ + "failure_breakdown WHERE run_id = ?",
        run_id);
  }
  /// Rows of first_fail; numeric_origin is NULL in all of them unless the run has a numeric fail.
  Query& by_prompt(int64_t run_id, bool has_numeric) {
    return bound(has_numeric ? by_prompt_numeric_ : by_prompt_, by_prompt_sql(has_numeric, kept_),
                 run_id);
  }

 private:
  Query& bound(std::unique_ptr<Query>& query, const std::string& sql, int64_t run_id) {
    if (!query) query = std::make_unique<Query>(db_, sql);
    query->reset();
    return query->bind(1, run_id);
  }

  SQLite::Database& db_;
  std::string kept_;
  std::unique_ptr<Query> breakdown_, by_prompt_, by_prompt_numeric_;
};

/// What is known of one run: its verdict, and the statements that say more.
struct Judged {
  const RunVerdict& verdict;
  int64_t run_id;
  Queries& queries;

  bool fails() const { return verdict.has("first_fail"); }
  Query& breakdown() const { return queries.breakdown(run_id); }
  Query& by_prompt() const { return queries.by_prompt(run_id, verdict.has("numeric_first_fail")); }

  /// Of the first pair beyond rounding: that of its prompt's row in first_fail.
  std::string numeric_origin() const {
    if (!verdict.has("numeric_first_fail")) return "";
    for (Query& row = by_prompt(); row.step();) {
      if (row.text(1) == verdict.text("numeric_prompt")) return row.text(15);
    }
    return "";
  }
};

Cell or_null(const std::string& text) { return text.empty() ? Cell() : Cell(text); }

std::string json_rows(Query& query) {
  std::vector<std::string> names = query.column_names(), rows;
  while (query.step()) {
    JsonObject object;
    for (int i = 0; i < query.columns(); i++)
      object.add(names[static_cast<size_t>(i)], query.cell(i));
    rows.push_back(object.str());
  }
  return json_array(rows);
}

/// The object that scripts read: keys are added to it, never renamed or taken away.
std::string json_of(const Judged& run) {
  const RunVerdict& v = run.verdict;
  std::string origin = run.numeric_origin();
  JsonObject first, numeric, object;
  first.add("cause", v.cell("first_fail")).add("prompt", v.cell("prompt"));
  first.add("layer", v.cell("layer")).add("tensor", v.cell("tensor"));
  first.add("token_id", v.cell("token_id")).add("pos_id", v.cell("pos_id"));
  numeric.add("cause", v.cell("numeric_first_fail")).add("prompt", v.cell("numeric_prompt"));
  numeric.add("layer", v.cell("numeric_layer")).add("tensor", v.cell("numeric_tensor"));
  numeric.add("origin", or_null(origin));
  for (const char* key : {"run", "experiment", "mode", "date"}) object.add(key, v.cell(key));
  object.add("commit", v.cell("commit_sha"));
  for (const char* key : {"verdict", "numeric_verdict", "coverage", "evidence", "pairs", "pass",
                          "fail", "missing", "decode_only", "incomparable", "prefill_only",
                          "claimed", "rejected", "rejected_why", "ingest_open"}) {
    object.add(key, v.cell(key));
  }
  object.raw("first_fail", v.has("first_fail") ? first.str() : "null");
  object.raw("numeric_first_fail", v.has("numeric_first_fail") ? numeric.str() : "null");
  object.add("root_cause", v.cell("root_cause"));
  object.raw("breakdown", run.fails() ? json_rows(run.breakdown()) : "[]");
  object.raw("by_prompt", run.fails() ? json_rows(run.by_prompt()) : "[]");
  return object.str();
}

void line(Output& out, std::string_view label, const std::string& text) {
  std::string start = "  " + std::string(label);
  start.resize(12, ' ');
  out.write(start + text + "\n");
}

std::string place(const RunVerdict& v, const char* cause, const char* layer, const char* tensor,
                  const char* prompt) {
  std::string text = v.show(cause);
  if (v.has(layer)) text += " at layer " + v.show(layer);
  if (v.has(tensor)) text += ", " + v.show(tensor);
  if (v.has(prompt)) text += ", prompt " + v.show(prompt);
  return text;
}

std::string counts(const RunVerdict& v) {
  std::string text = v.show("pairs") + ": " + v.show("pass") + " pass, " + v.show("fail") + " fail";
  if (v.number("rounding") + v.number("divergent") + v.number("unmeasured") > 0) {
    text += " (" + v.show("rounding") + " rounding, " + v.show("divergent") + " divergent, " +
            v.show("unmeasured") + " not measurable)";
  }
  if (v.number("incomparable") > 0) text += ", " + v.show("incomparable") + " incomparable";
  text += "; " + v.show("missing") + " missing, " + v.show("decode_only") + " decode only";
  if (v.number("prefill_only") > 0) text += ", " + v.show("prefill_only") + " prefill only";
  if (v.number("unmet") > 0) text += ", " + v.show("unmet") + " declared rows not there";
  return text;
}

/// What the reader should do or know next; "" when the verdict speaks for itself.
std::string hint(const RunVerdict& v) {
  if (v.text("verdict") == "NO_EVIDENCE") {
    if (v.number("claimed") > 0) {
      return "documents alone state these pairs: what they claim can fail a run and not pass it";
    }
    if (v.text("evidence") == "none") {
      return "nothing was compared: the run has no trace rows and no table of verdicts";
    }
    if (v.number("decode_only") > 0) {
      return "nothing was compared: no prefill row lies at a position that decode traced; trace "
             "prefill_last and decode0 of the same token";
    }
    return "nothing was compared: one side was not traced, or its positions are unknown";
  }
  if (v.number("missing") > 0) {
    return "rows without a partner: greta-db pairs --run " + shell_word(v.text("run")) +
           " --status MISSING";
  }
  if (v.text("verdict") == "INCOMPLETE" && v.number("ingest_open") > 0) {
    return "an ingest of its files has not ended: greta-db ingest --resume finishes one that was "
           "interrupted";
  }
  if (v.text("verdict") == "INCOMPLETE" && v.text("status") != "running" &&
      v.text("status") != "failed" && v.number("unmet") == 0) {
    return "what was not taken could be where it fails: greta-db query ingest_errors";
  }
  if (v.text("verdict") == "INCOMPLETE") {
    return v.number("unmet") > 0 ? "rows that the run declares are not there"
                                 : "the run never finished (status " + v.show("status") + ")";
  }
  if (v.text("verdict") == "INCOMPARABLE" && v.number("incomparable") == 0) {
    return v.number("claimed") > 0 ? "some of these rows only a document states"
                                   : "a report lists failures that the rows do not show: greta-db "
                                     "query claims_without_evidence, view report_conflict";
  }
  if (v.text("verdict") == "INCOMPARABLE") {
    return "pairs that nothing decides: greta-db pairs --run " + shell_word(v.text("run")) +
           " --status INCOMPARABLE";
  }
  return "";
}

void print_breakdown(Output& out, Query& breakdown) {
  bool any = false;
  RowPrinter table(out, Format::kTable, {"cause", "count", "percent"});
  table.set_indent("  ");
  while (breakdown.step()) {
    if (!any) out.write("\n");
    any = true;
    char percent[32];
    std::snprintf(percent, sizeof percent, "%6.2f %%", breakdown.cell(2).real);
    table.row({breakdown.cell(0), breakdown.cell(1), Cell(percent)});
  }
  if (any) table.finish();
}

/// "CAUSE LAYER TENSOR" of three columns; "" without a cause.
std::string place_of(const Query& row, int cause, int layer, int tensor) {
  if (row.is_null(cause)) return "";
  return row.text(cause) + " " + display_text(row.cell(layer)) + " " +
         display_text(row.cell(tensor));
}

void print_prompts(Output& out, Query& by_prompt) {
  RowPrinter table(out, Format::kTable,
                   {"prompt", "first fail", "layer", "tensor", "pos", "token", "first drift",
                    "beyond rounding", "origin", "details"});
  table.set_indent("  ");
  table.hide_empty_columns();
  while (by_prompt.step()) {
    if (table.rows() == 0) out.write("\n");
    std::string drift = place_of(by_prompt, 11, 9, 10), numeric = place_of(by_prompt, 12, 13, 14);
    if (drift == place_of(by_prompt, 6, 4, 5)) drift.clear();
    table.row({by_prompt.cell(1), by_prompt.cell(6), by_prompt.cell(4), by_prompt.cell(5),
               by_prompt.cell(3), by_prompt.cell(2), or_null(drift), or_null(numeric),
               by_prompt.cell(15), by_prompt.cell(8)});
  }
  if (table.rows() > 0) table.finish();
}

/// "NAME#2, NAME#3; --latest takes the newest": later runs of a name that are not shown, "" when
/// there is none.
std::string later_text(SQLite::Database& db, const Run& run, const std::vector<Run>& shown) {
  std::string text;
  for (const Run& later : later_runs(db, run)) {
    if (std::find(shown.begin(), shown.end(), later) != shown.end()) continue;
    text += (text.empty() ? "" : ", ") + utf8::printable(later.name);
  }
  return text.empty() ? "" : text + "; --latest takes the newest";
}

void print_block(Output& out, const Judged& run, const std::string& later) {
  const RunVerdict& v = run.verdict;
  out.write(v.show("run") + "  " + colored(out, v.show("verdict")) + "\n");
  std::string what;
  for (auto [label, key] : {std::pair{"", "date"},
                            {"commit ", "commit_sha"},
                            {"mode ", "mode"},
                            {"experiment ", "experiment"}}) {
    if (v.has(key)) what += (what.empty() ? "" : ", ") + std::string(label) + v.show(key);
  }
  line(out, "run", what);
  if (!later.empty()) line(out, "later", later);
  line(out, "strict",
       colored(out, v.show("verdict")) +
           (v.has("first_fail") ? ": " + place(v, "first_fail", "layer", "tensor", "prompt") : ""));
  if (v.has("root_cause")) line(out, "", "root cause " + v.show("root_cause"));
  std::string numeric = colored(out, v.show("numeric_verdict"));
  if (v.has("numeric_first_fail")) {
    numeric +=
        ": " + place(v, "numeric_first_fail", "numeric_layer", "numeric_tensor", "numeric_prompt");
    std::string origin = run.numeric_origin();
    if (!origin.empty()) numeric += " (" + utf8::printable(origin) + ")";
  }
  line(out, "numeric", numeric);
  line(out, "pairs", counts(v));
  line(out, "evidence", v.show("evidence") + ", coverage " + v.show("coverage"));
  if (v.number("rejected") > 0) {
    line(out, "rejected",
         v.show("rejected") + " of its lines and files, such as: " + v.show("rejected_why"));
  }
  std::string next = hint(v);
  if (!next.empty()) line(out, "hint", next);
  if (!run.fails()) return;
  print_breakdown(out, run.breakdown());
  print_prompts(out, run.by_prompt());
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
  SQLite::Database db = open_for_reading(options.database);
  std::vector<Run> runs = resolve_runs_or_all(db, arguments.run, arguments.repeats);
  const bool named_all = !arguments.run.empty() && arguments.repeats == Repeats::kAll;
  bool json = options.format == Format::kJson;
  bool blocks =
      options.format == Format::kTable && (!arguments.run.empty() || runs.size() <= kMaxBlocks);
  Queries queries(db, json || blocks ? kVerdictColumns : kVerdictColumnsWithOrigin,
                  are_kept(db, runs));
  std::optional<RowPrinter> printer;
  if (!json && !blocks)
    printer.emplace(options.out, options.format, queries.verdict.column_names());
  if (json) options.out.write("[");

  std::map<std::string, int> verdicts;
  ExitOfVerdicts exit(arguments.gate);
  bool first = true;
  for (const Run& run : runs) {
    queries.verdict.bind(1, run.id);
    if (!queries.verdict.step()) continue;
    RunVerdict verdict(queries.verdict);
    Judged judged{verdict, run.id, queries};
    const std::string later = named_all ? later_text(db, run, runs) : "";
    exit.add(verdict);
    verdicts[verdict.show("verdict")]++;
    if (json) {
      options.out.write((first ? "\n" : ",\n") + json_of(judged));
    } else if (blocks) {
      if (!first) options.out.write("\n");
      print_block(options.out, judged, later);
    } else {
      printer->row(verdict.cells());
    }
    if (!blocks && !later.empty())
      std::fprintf(stderr, "greta-db: later runs: %s\n", later.c_str());
    first = false;
    queries.verdict.reset();
  }
  if (json) options.out.write(first ? "]\n" : "\n]\n");
  if (printer) printer->finish();
  if (options.format == Format::kTable) {
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
  auto arguments = std::make_shared<FirstFailArguments>();
  add_run_option(*command, arguments->run, arguments->repeats);
  add_gate_option(*command, arguments->gate);
  command->callback([&options, arguments] {
    options.action = [&options, arguments] { return firstfail(options, *arguments); };
  });
}

}  // namespace greta
