#include "ingest/record/shapes.h"

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
  row.prompt_id = in.line_prompt();
  row.name_id = in.name(unquoted(in.fields.take(kPoint)));
  in.set_phase(row, c, *phase);
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

}  // namespace greta::record
