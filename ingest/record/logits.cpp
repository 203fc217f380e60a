#include "ingest/record/shapes.h"

namespace greta::record {

void read_logits(LineReader& in) {
  TraceRow row;
  row.layer = -1;
  if (!in.step_and_position(row, {kTokenIdx})) return;
  if (!in.number_of_row(kTokenId, row.token_id)) return;
  const auto phase = in.line_phase(in.source_phase());
  if (!phase) return;
  RowContext c;
  row.prompt_id = in.line_prompt();
  row.name_id = in.name("logits");
  in.set_phase(row, c, *phase);
  in.set_values(row);
  in.set_shape("logits");
  in.add(row, std::move(c), in.extra_json({}, {}));
}

}  // namespace greta::record
