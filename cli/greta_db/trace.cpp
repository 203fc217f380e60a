#include <memory>
#include <optional>

#include "cli/greta_db/commands.h"
#include "cli/greta_db/row_filter.h"
#include "cli/options/shared_options.h"
#include "cli/warehouse/known_value.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"
#include "common/completion.h"
#include "db/database.h"
#include "db/trace_row.h"

namespace greta {
namespace {

struct TraceArguments {
  RowFilter filter;
  std::string phase;
  std::optional<int64_t> step, pos;
  bool samples = false;
};

constexpr std::string_view kTraceTableColumns =
    "run, prompt, phase, step, pos_id, layer, tensor, token_id, n, hash, min, max, mean, abs_sum,"
    " nan, inf, route, source_file, source_line";
constexpr std::string_view kAllTraceColumns =
    "run, experiment, mode, commit_sha, date, prompt, phase, step, pos_id, layer, tensor, token_id,"
    " logical_tok_idx, n, hash, min, max, mean, abs_sum, nan, inf, nz_count, route, source_file,"
    " source_line, canonical_tensor, side, occurrence, seen, derived, sample_n, src_kind, "
    "phase_raw,"
    " seq_len, tokens_total, token_index, kv_pos, stride_elems, alloc_bytes, prompt_tokens,"
    " decode_step, ptr, offset_bytes, extra, shape";

int trace(Options& options, const TraceArguments& arguments) {
  SQLite::Database db = open_for_reading(options.database);
  std::vector<Run> runs = resolve_runs_or_all(db, arguments.filter.run, arguments.filter.repeats);
  arguments.filter.check(db, runs);
  check_known(db, NameOf::kPhase, arguments.phase);
  Where where;
  where.add("run_id = ?", int64_t{0});
  arguments.filter.add_to(where);
  where.add_if(arguments.phase, "phase = ?");
  if (arguments.step) where.add("step = ?", *arguments.step);
  if (arguments.pos) where.add("pos_id = ?", *arguments.pos);
  bool table = options.format == Format::kTable || options.format == Format::kMarkdown;
  // No ORDER BY: rows come in the order of the key, and none has to be held back.
  Query query(db, "SELECT " + std::string(table ? kTraceTableColumns : kAllTraceColumns) +
                      (arguments.samples ? ", sample" : "") + " FROM trace" + where.sql() +
                      " LIMIT ?");
  where.bind(query);
  RowPrinter printer(options.out, options.format, query.column_names());
  for (const Run& run : runs) {
    query.bind(1, run.id).bind(query.parameters(), arguments.filter.left(printer.rows()));
    print_rows(query, printer);
    query.reset();
  }
  printer.finish();
  return kExitDone;
}

}  // namespace

void add_trace_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand("trace", "Traced rows as they were written");
  auto arguments = std::make_shared<TraceArguments>();
  arguments->filter.add_options(*command);
  command->add_option("--phase", arguments->phase, "Only this phase: prefill_last, decode0, ...")
      ->check(offers_rows("SELECT name FROM phase"))
      ->option_text("PHASE");
  add_number_option(*command, "--step", arguments->step,
                    "Only this step: 0 is prefill, then one per token");
  add_number_option(*command, "--pos", arguments->pos, "Only this position", 0, kMaxPosition);
  command->add_flag("--samples", arguments->samples,
                    "Also the stored values: f32 little-endian, in hex");
  command->callback([&options, arguments] {
    options.action = [&options, arguments] { return trace(options, *arguments); };
  });
}

}  // namespace greta
