#pragma once
#include "ingest/record/line_reader.h"

/// The shapes of JSON lines. Each takes the line that `in` holds: its rows, its readout or one
/// finding go to the batch. A new shape is a function here and a branch in parser.cpp.
namespace greta::record {

/// The phase of a line that states its step only.
inline std::string_view phase_of_step(int64_t step) {
  return step == 0 ? "prefill_last" : step == 1 ? "decode0" : "decode";
}

/// {"event":"stage_trace","point":"attn_out","layer":0,"phase":"decode0","hash":...,"sample":[...]}
void read_stage_trace(LineReader& in);

/// {"event":"readout","phase":"decode0","pos_id":5,"top1_id":...}: what a row of logits chose,
/// whose row is a line of its own, if it was traced at all.
void read_readout_event(LineReader& in);

/// {"event":"difference","point":"attn_out","layer":0,"pos_id":5,"prefill_hash":...,
///  "decode_hash":...,"rel_l2":...,"shares":[...]}: how two rows differ that are lines of their
///  own.
void read_difference(LineReader& in);

/// {"event":"row","prompt":"p0","phase":"decode0","layer":0,"tensor":"attn_out","pos_id":5,
///  "values":[...]}, or a fingerprint in place of the values: of the row format (docs/traces.md).
void read_row(LineReader& in);

/// {"event":"run_start",...}, run_attributes, run_prompt, run_end.
void read_run_line(LineReader& in);

/// {"metric":"attn_out","layer":0,"step":1,"data":[...]}
void read_metric(LineReader& in);

/// {"phase":"prefill_last","pos_id":5,"hidden_hash":...,"rms_hash":...,"logits_hash":...,
///  "top1_id":...}: three rows and a readout; with lm_head_route it is a "delta".
void read_readout(LineReader& in);

/// {"phase":"decode","token_index":5,"hidden_hash":...,"logits_hash":...}: two rows.
void read_prefill_decode(LineReader& in);

/// {"step":0,"pos_id":5,"top1":{"id":1,"logit":2.5},"top2":{...},"gap":...}
void read_landscape(LineReader& in);

/// {"token_idx":5,"token_id":1,"logits":[...]}
void read_logits(LineReader& in);

/// {"tag":"x_in","layer":0,"step":1,"hash":...,"min":...}
void read_layer_trace(LineReader& in);

}  // namespace greta::record
