#include <algorithm>
#include <memory>
#include <set>

#include "cli/greta_db/commands.h"
#include "cli/greta_db/row_filter.h"
#include "cli/warehouse/known_value.h"
#include "cli/warehouse/origin.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"
#include "common/completion.h"
#include "db/database.h"

namespace greta {
namespace {

struct PairsArguments {
  RowFilter filter;
  std::string status, grade, cause;
};

/// Probes that are named below a table: layers that lack in many places are few.
constexpr size_t kMaxProbes = 4;

constexpr std::string_view kPairTableColumns =
    "run, prompt, pos_id, layer, tensor, status, class, rel_l2, scope, origin,"
    " numeric_origin, segment, caused_by, cause, untraced_layers, location";
constexpr std::string_view kAllPairColumns =
    "run, prompt, token_id, logical_tok_idx, pos_id, layer, tensor, canonical_tensor, status,"
    " class, origin, inputs_complete, scope, compared_n, cause, root_cause, prefill_hash,"
    " decode_hash, rel_l2, tolerance, numeric_origin, details, caused_by, evidence,"
    " segment, untraced_layers, measure, rel_l2_low, rel_l2_high, location, differing, max_abs,"
    " max_abs_at, max_ulp, tolerance_source";

/// Prints the rows of a query; of pairs whose origin was not traced, adds the probes that would
/// tell.
void print_pairs(Query& query, RowPrinter& printer, std::set<std::string>& probes) {
  const std::vector<std::string> names = query.column_names();
  auto at = [&names](std::string_view name) {
    return static_cast<int>(std::find(names.begin(), names.end(), name) - names.begin());
  };
  const int origin = at("numeric_origin"), segment = at("segment"), layers = at("untraced_layers");
  std::vector<Cell> cells(names.size());
  while (query.step()) {
    for (int i = 0; i < query.columns(); ++i) cells[static_cast<size_t>(i)] = query.cell(i);
    printer.row(cells);
    if (query.cell(origin).text == "UNSAMPLED" && probes.size() < kMaxProbes) {
      probes.insert(telling_probe(query.text(segment), query.text(layers)));
    }
  }
}

int pairs(Options& options, const PairsArguments& arguments) {
  SQLite::Database db = open_for_reading(options.database);
  sort_on_disk(db);
  std::vector<Run> runs = resolve_runs_or_all(db, arguments.filter.run, arguments.filter.repeats);
  arguments.filter.check(db, runs);
  check_known(db, NameOf::kCause, arguments.cause);
  Where where;
  where.add("run_id = ?", int64_t{0});
  arguments.filter.add_to(where);
  where.add_if(arguments.status, "status = ?");
  where.add_if(arguments.grade, "class = ?");
  where.add_if(arguments.cause, "cause = ?");
  bool table = options.format == Format::kTable || options.format == Format::kMarkdown;
  Query query(db, "SELECT " + std::string(table ? kPairTableColumns : kAllPairColumns) +
                      " FROM pair" + where.sql() +
                      " ORDER BY prompt_id, pos_id, forward_layer, tensor_id LIMIT ?");
  where.bind(query);
  std::set<std::string> probes;
  RowPrinter printer(options.out, options.format, query.column_names());
  for (const Run& run : runs) {
    query.bind(1, run.id).bind(query.parameters(), arguments.filter.left(printer.rows()));
    print_pairs(query, printer, probes);
    query.reset();
  }
  printer.finish();
  if (options.format == Format::kTable && !probes.empty()) options.out.write("\n");
  for (const std::string& probe : probes) {
    if (options.format == Format::kTable)
      options.out.write("UNSAMPLED: " + probe + " tells where\n");
  }
  return kExitDone;
}

}  // namespace

void add_pairs_command(CLI::App& app, Options& options) {
  CLI::App* command =
      app.add_subcommand("pairs", "Comparisons of prefill with decode, in forward order");
  auto arguments = std::make_shared<PairsArguments>();
  arguments->filter.add_options(*command);
  command->add_option("--status", arguments->status, "Only this status: MATCH, DRIFT, MISSING, ...")
      ->check(CLI::IsMember({"MATCH", "DRIFT", "NONFINITE", "AMBIGUOUS", "CONFLICT", "INCOMPARABLE",
                             "MISSING", "DECODE_ONLY", "PREFILL_ONLY"}))
      ->option_text("STATUS");
  command
      ->add_option("--class", arguments->grade,
                   "Only drifts of this class: ROUNDING, DIVERGENT, UNKNOWN")
      ->check(CLI::IsMember({"ROUNDING", "DIVERGENT", "UNKNOWN"}))
      ->option_text("CLASS");
  command->add_option("--cause", arguments->cause, "Only this cause: ATTN_OUT_DRIFT, ...")
      ->check(offers_rows("SELECT name FROM cause"))
      ->option_text("CAUSE");
  command->callback([&options, arguments] {
    options.action = [&options, arguments] { return pairs(options, *arguments); };
  });
}

}  // namespace greta
