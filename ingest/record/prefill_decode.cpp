#include "ingest/record/shapes.h"

namespace greta::record {

void read_prefill_decode(LineReader& in) {
  TraceRow base;
  base.layer = -1;
  if (!in.step_and_position(base, {kTokenIndex})) return;
  auto phase = in.line_phase("");
  if (!phase) return;
  if (phase->name == "prefill") phase->name = "prefill_last";
  if (phase->name == "decode" && base.step == 1) phase->name = "decode0";
  base.prompt_id = in.line_prompt();
  RowContext c;
  in.set_phase(base, c, *phase);
  c.token_index = in.integer_field(kTokenIndex);

  PartRow hidden = in.part_row(
      base, "hidden",
      {kHiddenHash, kHiddenMin, kHiddenMax, kHiddenMean, kHiddenPtr, kHiddenOffset, kHiddenN});
  PartRow logits_row = in.part_row(
      base, "logits",
      {kLogitsHash, kLogitsMin, kLogitsMax, kLogitsMean, kLogitsPtr, kLogitsOffset, kLogitsN});
  in.set_shape("prefill_decode");
  in.add(hidden, RowContext(c), in.extra_json("hidden_", {}));
  in.add(logits_row, std::move(c), in.extra_json({}, {"hidden_"}));
}

}  // namespace greta::record
