#include "common/sha256.h"
#include "ingest/record/shapes.h"

namespace greta::record {
namespace {

/// Prompt of a readout line. Such files hold several prompts, one after the other and unnamed: a
/// prefill_last line opens the next one, or the same again when it repeats an earlier opening.
int64_t segment_prompt(LineReader& in, bool opens) {
  if (opens) {
    if (in.segments.of_opening.size() >= kMaxPrompts) {
      in.refusal = "more prompts than one file may open";
      return 0;
    }
    auto [it, is_new] =
        in.segments.of_opening.try_emplace(Sha256::hex_of(in.line), in.segments.count);
    if (is_new) ++in.segments.count;
    in.segments.current = it->second;
  }
  if (in.segments.current < 0) in.segments.current = in.segments.count++;
  size_t i = static_cast<size_t>(in.segments.current);
  if (i < in.source.prompt_names.size()) return in.prompt(in.source.prompt_names[i]);
  std::optional<int64_t> length = opens ? integer(in.fields.token[kTokensTotal]) : std::nullopt;
  return in.prompt("seg" + std::to_string(i), true, length);
}

void take_choice(LineReader& in, Readout& out) {
  out.top1_id = in.integer_field(kTop1Id);
  out.top1_logit = in.real_field(kTop1Logit);
  out.top2_id = in.integer_field(kTop2Id);
  out.top2_logit = in.real_field(kTop2Logit);
  out.gap = in.real_field(kGap);
  out.vocab = in.integer_field(kVocab);
  out.route = in.fields.text(kLmHeadRoute);
  out.cpu_top1_id = in.integer_field(kCpuProbeTop1);
  if (std::string_view agrees = in.fields.token[kCpuProbeAgrees];
      agrees == "true" || agrees == "false") {
    out.cpu_agrees = in.fields.take(kCpuProbeAgrees) == "true";
  }
  out.norm_error = in.real_field(kNormError);
  out.logits_error = in.real_field(kLogitsError);
}

}  // namespace

void read_readout(LineReader& in) {
  bool is_delta = in.fields.has(kLmHeadRoute);
  TraceRow base;
  base.layer = -1;
  if (!in.step_and_position(base, {kPosId})) return;
  if (!is_delta) {
    base.logical_tok_idx =
        in.integer_field(in.fields.has(kLogicalLastIndex) ? kLogicalLastIndex : kExpectedLastIndex);
  }
  auto phase = in.line_phase("");
  if (!phase) return;
  if (phase->name == "decode" && base.step == 1) phase->name = "decode0";
  base.prompt_id = in.fields.states(kPromptId) ? in.line_prompt()
                                               : segment_prompt(in, phase->name == "prefill_last");
  RowContext shared;
  in.set_phase(base, shared, *phase);
  shared.seq_len = in.integer_field(kSeqLen);
  shared.tokens_total = in.integer_field(kTokensTotal);
  shared.token_index = in.integer_field(kTokenIndex);

  PartRow hidden = in.part_row(base, "hidden",
                               {kHiddenHash, kHiddenMin, kHiddenMax, kHiddenMean, kHiddenSrcPtr,
                                kHiddenOffsetBytes, kHiddenN});
  PartRow rms = in.part_row(
      base, "rms", {kRmsHash, kRmsMin, kRmsMax, kRmsMean, kRmsOutPtr, kRmsOffsetBytes, kRmsN});
  PartRow logits_row = in.part_row(
      base, "logits",
      {kLogitsHash, kLogitsMin, kLogitsMax, kLogitsMean, kLogitsPtr, kLogitsOffsetBytes, kLogitsN});

  Readout out = in.readout_of(logits_row.row);
  logits_row.doubts += in.rejected_by([&] { take_choice(in, out); });

  in.set_shape(is_delta ? "delta" : "readout");
  in.add(hidden, RowContext(shared), in.extra_json("hidden_", {}));
  in.add(rms, RowContext(shared), in.extra_json("rms_", {}));
  RowContext c = shared;
  c.route = in.fields.text(kLmHeadRoute);
  in.add(logits_row, std::move(c), in.extra_json({}, {"hidden_", "rms_"}));
  in.batch->readouts.push_back(std::move(out));
}

/// A readout whose row of logits is a line of its own, if it was traced at all.
void read_readout_event(LineReader& in) {
  in.fields.take(kEvent);
  TraceRow key;
  if (!in.step_and_position(key, {kPosId})) return;
  const auto phase = in.line_phase("");
  if (!phase) return;
  key.prompt_id = in.line_prompt();
  key.phase_id = in.phase(phase->name);
  key.name_id = in.name("logits");
  Readout out = in.readout_of(key);
  take_choice(in, out);
  in.set_shape("stage_trace");
  in.batch->readouts.push_back(std::move(out));
}

}  // namespace greta::record
