#include "ingest/record/shapes.h"

namespace greta::record {

void read_logits(LineReader& in) {
  TraceRow row;
  row.layer = -1;
  if (!in.step_and_position(row, {kTokenIdx})) return;
  RowContext c;
  row.prompt_id = in.line_prompt();
  row.name_id = in.name("logits");
  row.token_id = in.integer_field(kTokenId);
  std::string_view raw = unquoted(in.fields.take(kPhase));
  if (is_absent(raw)) raw = in.source.leg.empty() ? "unknown" : std::string_view(in.source.leg);
  in.set_phase(row, c, raw, raw);
  in.set_values(row);
  in.set_shape("logits");
  in.add(row, std::move(c), in.extra_json({}, {}));
}

}  // namespace greta::record
