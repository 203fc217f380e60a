#include "ingest/record/shapes.h"

namespace greta::record {

void read_metric(LineReader& in) {
  TraceRow row;
  if (!in.fields.has(kTensorName) && !in.fields.has(kMetric))
    return in.add_finding(true, "metric without tensor_name");
  if (!in.fields.has(kLayer)) return in.add_finding(true, "metric without layer");
  if (!in.key_field(kLayer, -1, kMaxLayer, row.layer)) return;
  if (!in.step_and_position(row, {kPosId, kLogicalTokIdx})) return;
  row.logical_tok_idx.reset();  // not what the position says
  if (!in.number_of_row(kLogicalTokIdx, row.logical_tok_idx)) return;
  auto phase = in.line_phase(in.source_phase());
  if (!phase) return;
  // The writer labels every decode step decode0: the step decides.
  if (phase->name == "decode0" && row.step > 1) phase->name = "decode";
  RowContext c;
  row.prompt_id = in.line_prompt();
  row.name_id =
      in.name(unquoted(in.fields.take(in.fields.has(kTensorName) ? kTensorName : kMetric)));
  if (in.fields.token[kMetric] == in.fields.token[kTensorName]) in.fields.take(kMetric);
  in.set_phase(row, c, *phase);
  in.set_values(row);
  row.ptr = in.integer_field(kSrcPtr);
  row.offset_bytes = in.integer_field(kBytesOffset);
  c.seq_len = in.integer_field(kSeqLenUsed);
  c.src_kind = in.fields.text(kSrcEnum);
  in.set_shape("metric");
  in.add(row, std::move(c), in.extra_json({}, {}));
}

}  // namespace greta::record
