#include "ingest/record/shapes.h"

namespace greta::record {

void read_layer_trace(LineReader& in) {
  TraceRow row;
  if (!in.key_field(kLayer, -1, kMaxLayer, row.layer)) return;
  if (!in.step_and_position(row, {kPosId, kLogicalTokIdx})) return;
  if (!in.number_of_row(kTokenId, row.token_id)) return;
  const auto phase = in.line_phase(phase_of_step(row.step));
  if (!phase) return;
  RowContext c;
  row.prompt_id = in.line_prompt();
  row.name_id = in.name(unquoted(in.fields.take(kTag)));
  in.set_phase(row, c, *phase);
  in.set_statistics(row, kHash, kMin, kMax, kMean, kAbsSum);
  row.nan = in.nonfinite_count(kNan);
  row.inf = in.nonfinite_count(kInf);
  row.n = in.integer_field(kN);
  in.doubt_hash_of_nothing(row, kHash);
  in.set_values(row);
  in.set_shape("layer_trace");
  in.add(row, std::move(c), in.extra_json({}, {}));
}

}  // namespace greta::record
