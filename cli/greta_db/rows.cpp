#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <set>

#include "cli/greta_db/commands.h"
#include "cli/warehouse/known_value.h"
#include "cli/warehouse/origin.h"
#include "cli/warehouse/sql_query.h"
#include "common/completion.h"
#include "db/database.h"
#include "db/trace_row.h"

namespace greta {
namespace {

/// What `pairs` and `trace` list: rows that meet all that is set.
struct RowsArguments {
  std::string run, prompt, tensor;
  Repeats repeats = Repeats::kAll;
  std::optional<int64_t> layer, limit;
  std::string status, grade, cause;  // of pairs
  std::string phase;                 // of trace
  std::optional<int64_t> step, pos;
  bool samples = false;
};

/// Probes that are named below a table: layers that lack in many places are few.
constexpr size_t kMaxProbes = 4;

constexpr const char* kPairTableColumns =
    "run, prompt, pos_id, layer, tensor, status, class, rel_l2, scope, origin,"
    " numeric_origin, segment, caused_by, cause, untraced_layers, location";
constexpr const char* kAllPairColumns =
    "run, prompt, token_id, logical_tok_idx, pos_id, layer, tensor, canonical_tensor, status,"
    " class, origin, inputs_complete, scope, compared_n, cause, root_cause, prefill_hash,"
    " decode_hash, rel_l2, tolerance, numeric_origin, details, caused_by, evidence,"
    " segment, untraced_layers, measure, rel_l2_low, rel_l2_high, location, differing, max_abs,"
    " max_abs_at, max_ulp, tolerance_source";
constexpr const char* kTraceTableColumns =
    "run, prompt, phase, step, pos_id, layer, tensor, token_id, n, hash, min, max, mean, abs_sum,"
    " nan, inf, route, source_file, source_line";
constexpr const char* kAllTraceColumns =
    "run, experiment, mode, commit_sha, date, prompt, phase, step, pos_id, layer, tensor, token_id,"
    " logical_tok_idx, n, hash, min, max, mean, abs_sum, nan, inf, nz_count, route, source_file,"
    " source_line, canonical_tensor, side, occurrence, seen, derived, sample_n, src_kind, "
    "phase_raw,"
    " seq_len, tokens_total, token_index, kv_pos, stride_elems, alloc_bytes, prompt_tokens,"
    " decode_step, ptr, offset_bytes, extra, shape";

Where where_of(const RowsArguments& a) {
  Where where;
  where.add("run_id = ?", int64_t{0});
  where.add_if(a.prompt, "prompt = ?");
  where.add_if(a.tensor, "? IN (tensor, canonical_tensor)");
  where.add_if(a.status, "status = ?");
  where.add_if(a.grade, "class = ?");
  where.add_if(a.cause, "cause = ?");
  where.add_if(a.phase, "phase = ?");
  if (a.layer) where.add("layer = ?", *a.layer);
  if (a.step) where.add("step = ?", *a.step);
  if (a.pos) where.add("pos_id = ?", *a.pos);
  return where;
}

/// Prints `columns` of a view, run by run; `see` gets every row. Throws UsageError for a name or a
/// layer that is nowhere.
void list_rows(Options& options, const RowsArguments& a, const std::string& columns,
               const std::string& view, const std::string& order,
               const std::function<void(const Query&)>& see) {
  SQLite::Database db = open_for_reading(options.database);
  sort_on_disk(db);
  const std::vector<Run> runs = resolve_runs_or_all(db, a.run, a.repeats);
  check_known(db, NameOf::kPrompt, a.prompt);
  check_known(db, NameOf::kTensor, a.tensor);
  check_known(db, NameOf::kCause, a.cause);
  check_known(db, NameOf::kPhase, a.phase);
  check_layer(db, runs, a.layer);
  const Where where = where_of(a);
  Query query(db, "SELECT " + columns + " FROM " + view + where.sql() + order + " LIMIT ?");
  where.bind(query);
  RowPrinter printer(options.out, options.format, query.column_names());
  for (const Run& run : runs) {
    const int64_t left = a.limit ? *a.limit - printer.rows() : std::numeric_limits<int64_t>::max();
    query.bind(1, run.id).bind(query.parameters(), left);
    print_rows(query, printer, see);
    query.reset();
  }
  printer.finish();
}

/// Of pairs whose origin was not traced, adds the probes that would tell.
int pairs(Options& options, const RowsArguments& a) {
  std::set<std::string> probes;
  const std::string columns = options.for_readers() ? kPairTableColumns : kAllPairColumns;
  std::vector<std::string> names;
  list_rows(options, a, columns, "pair", " ORDER BY prompt_id, pos_id, forward_layer, tensor_id",
            [&](const Query& row) {
              if (names.empty()) names = row.column_names();
              const auto text = [&](std::string_view name) {
                return row.text(
                    static_cast<int>(std::find(names.begin(), names.end(), name) - names.begin()));
              };
              if (probes.size() < kMaxProbes && text("numeric_origin") == "UNSAMPLED")
                probes.insert(telling_probe(text("segment"), text("untraced_layers")));
            });
  if (options.format != Format::kTable) return kExitDone;
  if (!probes.empty()) options.out.write("\n");
  for (const std::string& probe : probes)
    options.out.write("UNSAMPLED: " + probe + " tells where\n");
  return kExitDone;
}

/// Rows come in the order of the key, and none has to be held back for an ORDER BY.
int trace(Options& options, const RowsArguments& a) {
  const std::string columns = options.for_readers() ? kTraceTableColumns : kAllTraceColumns;
  list_rows(options, a, columns + (a.samples ? ", sample" : ""), "trace", "", {});
  return kExitDone;
}

RowsArguments& add_row_options(CLI::App& command, Options& options,
                               int (*list)(Options&, const RowsArguments&)) {
  RowsArguments& a = add_action(command, options, list);
  add_run_option(command, a.run, a.repeats);
  add_option(command, "--prompt NAME", a.prompt, "Only this prompt")
      ->check(offers_rows("SELECT DISTINCT name FROM prompt"));
  add_number_option(command, "--layer N", a.layer, "Only this layer", -1, kMaxLayer);
  add_option(command, "--tensor NAME", a.tensor,
             "Only this tensor, as written or by its canonical name")
      ->check(offers_rows("SELECT name FROM tensor_name"));
  add_number_option(command, "--limit N", a.limit, "At most this many rows");
  return a;
}

}  // namespace

void add_pairs_command(CLI::App& app, Options& options) {
  CLI::App* command =
      app.add_subcommand("pairs", "Comparisons of prefill with decode, in forward order");
  RowsArguments& a = add_row_options(*command, options, pairs);
  add_option(*command, "--status STATUS", a.status, "Only this status: MATCH, DRIFT, MISSING, ...")
      ->check(CLI::IsMember({"MATCH", "DRIFT", "NONFINITE", "AMBIGUOUS", "CONFLICT", "INCOMPARABLE",
                             "MISSING", "DECODE_ONLY", "PREFILL_ONLY"}));
  add_option(*command, "--class CLASS", a.grade,
             "Only drifts of this class: ROUNDING, EXPLAINED, DIVERGENT, UNKNOWN")
      ->check(CLI::IsMember({"ROUNDING", "EXPLAINED", "DIVERGENT", "UNKNOWN"}));
  add_option(*command, "--cause CAUSE", a.cause, "Only this cause: ATTN_OUT_DRIFT, ...")
      ->check(offers_rows("SELECT name FROM cause"));
}

void add_trace_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand("trace", "Traced rows as they were written");
  RowsArguments& a = add_row_options(*command, options, trace);
  add_option(*command, "--phase PHASE", a.phase, "Only this phase: prefill_last, decode0, ...")
      ->check(offers_rows("SELECT name FROM phase"));
  add_number_option(*command, "--step N", a.step,
                    "Only this step: 0 is prefill, then one per token");
  add_number_option(*command, "--pos N", a.pos, "Only this position", 0, kMaxPosition);
  command->add_flag("--samples", a.samples, "Also the stored values: f32 little-endian, in hex");
}

}  // namespace greta
