#include "ingest/record/shapes.h"

#include <nlohmann/json.hpp>

#include "common/json_document.h"
#include "common/sha256.h"

namespace greta::record {

void read_stage_trace(LineReader& in) {
  TraceRow row;
  if (!in.fields.has(kPoint) || !in.fields.has(kLayer) || unquoted(in.fields.token[kPoint]).empty())
    return in.add_finding(true, "stage_trace without point or layer");
  in.fields.take(kEvent);
  if (!in.key_field(kLayer, -1, kMaxLayer, row.layer)) return;
  if (!in.step_and_position(row, {kPosId, kLogicalTokIdx})) return;
  if (!in.number_of_row(kLogicalTokIdx, row.logical_tok_idx)) return;
  if (!in.number_of_row(kTokenId, row.token_id)) return;
  const auto phase = in.line_phase(in.source_phase());
  if (!phase) return;
  RowContext c;
  in.set_place(row, c, unquoted(in.fields.take(kPoint)), *phase);
  in.set_statistics(row, kHash, kMin, kMax, kMean, kAbsSum);
  row.nan = in.nonfinite_count(kNan);
  row.inf = in.nonfinite_count(kInf);
  row.nz_count = in.integer_field(kNzCount);
  auto sample_n = in.integer_field(kSampleN);
  if (in.line_algo == kWholeRowHash || !sample_n) row.n = in.integer_field(kN);
  if (in.line_algo != kWholeRowHash && sample_n) row.n = sample_n;
  if (!sample_n) sample_n = row.n;
  in.doubt_hash_of_nothing(row, kHash);
  size_t n_values = in.fields.values.size();
  if (in.fields.values_key != kNoKey && sample_n && *sample_n != static_cast<int64_t>(n_values)) {
    in.warn("sample_n is " + std::to_string(*sample_n) + ", the sample has " +
            std::to_string(n_values) + " values");
  }
  in.set_values(row);
  row.ptr = in.integer_field(in.fields.has(kPtr) ? kPtr : kSrcPtr);
  row.offset_bytes = in.integer_field(kOffsetBytes);
  c.route = in.fields.text(kRoute);
  c.src_kind = in.fields.text(kSrcKind);
  c.seq_len = in.integer_field(kSeqLen);
  c.tokens_total = in.integer_field(kTokensTotal);
  c.token_index = in.integer_field(kTokenIndex);
  c.kv_pos = in.integer_field(kKvPos);
  c.stride_elems = in.integer_field(kStrideElems);
  c.alloc_bytes = in.integer_field(kAllocBytes);
  c.prompt_tokens = in.integer_field(kPromptTokens);
  c.decode_step = in.integer_field(kDecodeStep);
  in.set_shape("stage_trace");
  in.add(row, std::move(c), in.extra_json({}, {}));
}

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
  const std::string_view tensor =
      unquoted(in.fields.take(in.fields.has(kTensorName) ? kTensorName : kMetric));
  if (in.fields.token[kMetric] == in.fields.token[kTensorName]) in.fields.take(kMetric);
  in.set_place(row, c, tensor, *phase);
  in.set_values(row);
  row.ptr = in.integer_field(kSrcPtr);
  row.offset_bytes = in.integer_field(kBytesOffset);
  c.seq_len = in.integer_field(kSeqLenUsed);
  c.src_kind = in.fields.text(kSrcEnum);
  in.set_shape("metric");
  in.add(row, std::move(c), in.extra_json({}, {}));
}

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

void read_landscape(LineReader& in) {
  TraceRow row;
  row.layer = -1;
  if (!in.step_and_position(row, {kPosId})) return;
  auto phase = in.line_phase(phase_of_step(row.step));
  if (!phase) return;
  if (phase->name == "prefill") phase->name = "prefill_last";
  if (phase->name == "decode" && row.step == 1) phase->name = "decode0";
  RowContext c;
  in.set_place(row, c, "logits_topk", *phase);

  Readout out = in.readout_of(row);
  std::string why;
  auto choice = [&](Key k, std::optional<int64_t>& id, std::optional<double>& logit) {
    constexpr size_t kMostValues = 1'000;
    nlohmann::json json;
    if (why.empty()) why = parse_json(with_quoted_nonfinite(in.fields.token[k]), kMostValues, json);
    if (!json.is_object()) return;
    if (auto it = json.find("id"); it != json.end() && it->is_number_integer())
      id = it->get<int64_t>();
    if (auto it = json.find("logit"); it != json.end()) {
      if (it->is_number()) {
        logit = it->get<double>();
      } else {
        in.fields.take(k);
        in.reject(k, false, "has a logit that is no finite number; kept as text");
        in.doubts.flags |= kFlagNonfiniteStatistic;
      }
    }
    if (json.size() == size_t{id.has_value()} + size_t{logit.has_value()}) in.fields.take(k);
  };
  choice(kTop1, out.top1_id, out.top1_logit);
  if (in.fields.states(kTop2)) choice(kTop2, out.top2_id, out.top2_logit);
  if (!why.empty()) return in.add_finding(true, why);
  const bool is_finite = (in.doubts.flags & kFlagNonfiniteStatistic) == 0;
  if (!out.top1_id && is_finite) return in.add_finding(true, "top1 is not an object with an id");
  out.gap = in.real_field(kGap);
  in.set_shape("landscape");
  in.add(row, std::move(c), in.extra_json({}, {}));
  in.batch->readouts.push_back(std::move(out));
}

void read_logits(LineReader& in) {
  TraceRow row;
  row.layer = -1;
  if (!in.step_and_position(row, {kTokenIdx})) return;
  if (!in.number_of_row(kTokenId, row.token_id)) return;
  const auto phase = in.line_phase(in.source_phase());
  if (!phase) return;
  RowContext c;
  in.set_place(row, c, "logits", *phase);
  in.set_values(row);
  in.set_shape("logits");
  in.add(row, std::move(c), in.extra_json({}, {}));
}

void read_layer_trace(LineReader& in) {
  TraceRow row;
  if (!in.key_field(kLayer, -1, kMaxLayer, row.layer)) return;
  if (!in.step_and_position(row, {kPosId, kLogicalTokIdx})) return;
  if (!in.number_of_row(kTokenId, row.token_id)) return;
  const auto phase = in.line_phase(phase_of_step(row.step));
  if (!phase) return;
  RowContext c;
  in.set_place(row, c, unquoted(in.fields.take(kTag)), *phase);
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
