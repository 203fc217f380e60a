#include "ingest/record/shapes.h"

namespace greta::record {

void read_layer_trace(LineReader& in) {
  TraceRow row;
  if (!in.key_field(kLayer, -1, kMaxLayer, row.layer)) return;
  if (!in.step_and_position(row, {kPosId, kLogicalTokIdx})) return;
  RowContext c;
  row.prompt_id = in.line_prompt();
  row.name_id = in.name(unquoted(in.fields.take(kTag)));
  std::string_view raw = unquoted(in.fields.take(kPhase));
  if (is_absent(raw)) raw = row.step == 0 ? "prefill_last" : row.step == 1 ? "decode0" : "decode";
  in.set_phase(row, c, raw, raw);
  in.set_statistics(row, kHash, kMin, kMax, kMean);
  row.abs_sum = in.real_field(kAbsSum);
  row.nan = in.integer_field(kNan);
  row.inf = in.integer_field(kInf);
  row.n = in.integer_field(kN);
  in.set_values(row);
  row.token_id = in.integer_field(kTokenId);
  in.set_shape("layer_trace");
  in.add(row, std::move(c), in.extra_json({}, {}));
}

}  // namespace greta::record
