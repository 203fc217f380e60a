#include "engine/probe/replay.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "engine/forward/activations.h"
#include "engine/forward/backend.h"
#include "engine/forward/layer_plan.h"
#include "kernels/blocks.h"

namespace greta {
namespace {

using enum TracePoint;

bool is_attention(TracePoint point) {
  return point == kAttnScores || point == kAttnProbs || point == kAttnOut;
}

bool is_cache(TracePoint point) { return point == kKCache || point == kVCache; }

/// Keeps the rows of a position of a prompt, by its number among those of a run.
class RunRows final : public TraceSink {
 public:
  RunRows(size_t which, int64_t pos) : which_(which), pos_(pos) {}

  size_t begin_prompt(const PromptRecord&) override { return n_begun_++; }
  void rows(size_t prompt, std::vector<TraceRecord> rows) override {
    if (prompt != which_) return;
    std::copy_if(std::move_iterator(rows.begin()), std::move_iterator(rows.end()),
                 std::back_inserter(rows_),
                 [this](const TraceRecord& row) { return row.pos_id == pos_; });
  }
  void readout(size_t, const ReadoutRecord&) override {}
  void attribute(const std::string&, const std::string&) override {}
  void end(bool) override {}

  /// The last one of a side.
  const TraceRecord& row(bool decode, TracePoint point) const {
    const auto found = std::find_if(rows_.rbegin(), rows_.rend(), [&](const TraceRecord& row) {
      return is_decode(row.phase) == decode && row.point == point;
    });
    if (found != rows_.rend()) return *found;
    throw std::runtime_error(std::string(decode ? "decode" : "prefill") + " left no " +
                             std::string(trace_point_name(point)) + " at position " +
                             std::to_string(pos_) + " when the prompt ran again");
  }

 private:
  size_t which_, n_begun_ = 0;
  int64_t pos_;
  std::vector<TraceRecord> rows_;
};

TraceSelection selection_of(const PairPlace& place) {
  TraceSelection selection;
  if (trace_point_stage(place.point) == Stage::kLayer) selection.layers = {place.layer};
  selection.points = inputs_of(place.point);
  selection.points.push_back(place.point);
  if (is_attention(place.point) || is_cache(place.point)) {
    selection.points.insert(selection.points.end(), {kKCacheRows, kVCacheRows});
  }
  selection.sample_values = kMaxFingerprintValues;
  return selection;
}

/// One operation of decode, by itself.
class Operation {
 public:
  Operation(const Model& model, const ModelWeights& weights, Backend& backend,
            const ForwardOptions& options, const Batch& batch, const PairPlace& place)
      : config_(model.config()),
        weights_(weights),
        backend_(backend),
        batch_(batch),
        place_(place),
        planner_(model, backend, options.routes, options.faults, place.pos + 2),
        act_(config_, 1, backend),
        cache_(of_one_layer(config_), place.pos + 1, backend, 0, options.kv_cache) {
    act_.begin_batch(1, false, 1);
  }

  /// The operation's result for the input that a side had.
  std::vector<float> on(bool decode, const RunRows& rows) {
    for (const TracePoint input : inputs_of(place_.point)) {
      give(rows.row(decode, input).sample, buffer_of(input));
    }
    if (is_attention(place_.point) || is_cache(place_.point)) give_cache(decode, rows);
    const int64_t n = std::ssize(rows.row(decode, place_.point).sample);
    const size_t layer = static_cast<size_t>(std::max(place_.layer, 0));
    const LayerPlan plan = planner_.layers(batch_)[layer];
    const Stretch stretch{.n_tokens = 1, .first_pos = batch_.first_pos};
    backend_.begin_batch(batch_.tokens, {&stretch, 1});
    if (trace_point_stage(place_.point) == Stage::kLayer) {
      block(plan, weights_.layers[layer]);
    } else {
      around();
    }
    backend_.end_batch();
    std::vector<float> values(static_cast<size_t>(n));
    if (is_cache(place_.point)) return read_cache();
    backend_.read(buffer_of(place_.point), n, values.data());
    return values;
  }

 private:
  static ModelConfig of_one_layer(ModelConfig config) {
    config.n_layers = 1;
    return config;
  }
  void give(std::span<const float> values, float* to) {
    backend_.copy(backend_.upload(values), std::ssize(values), to);
  }
  /// values: as the cache holds them.
  void give(std::span<const float> values, const KvRows& to) {
    if (to.type == KvType::kF32) return give(values, static_cast<float*>(to.data));
    std::vector<uint16_t> halves(values.size());
    std::transform(values.begin(), values.end(), halves.begin(), f32_to_f16);
    std::vector<float> words(halves.size() / 2);
    std::memcpy(words.data(), halves.data(), words.size() * sizeof(float));
    give(words, static_cast<float*>(to.data));
  }
  /// The place's row of the cache.
  std::vector<float> read_cache() {
    const int64_t width = config_.kv_dim();
    const KvRows row = (place_.point == kKCache ? cache_.k(0) : cache_.v(0)) + place_.pos * width;
    const std::span<float> words = words_of(row, width);
    std::vector<float> values(words.size());
    backend_.read(words.data(), std::ssize(words), values.data());
    if (row.type == KvType::kF32) return values;
    std::vector<uint16_t> halves(static_cast<size_t>(width));
    std::memcpy(halves.data(), values.data(), halves.size() * sizeof(uint16_t));
    values.resize(halves.size());
    std::transform(halves.begin(), halves.end(), values.begin(), f16_to_f32);
    return values;
  }

  /// Gives the cache the rows that a side finds in it; what it must not read, or writes, is NaN.
  void give_cache(bool decode, const RunRows& rows) {
    const int64_t width = config_.kv_dim(), n_rows = place_.pos + 2;
    const int64_t n_known = place_.pos + (is_attention(place_.point) ? 1 : 0);
    for (const auto& [point, cache] :
         {std::pair(kKCacheRows, cache_.k(0)), std::pair(kVCacheRows, cache_.v(0))}) {
      std::vector<float> values = rows.row(decode, point).sample;
      values.resize(static_cast<size_t>(n_known * width));
      values.resize(static_cast<size_t>(n_rows * width), std::numeric_limits<float>::quiet_NaN());
      give(values, cache);
    }
  }

  float* buffer_of(TracePoint point) {
    LayerActivations& a = act_.layer(0);
    switch (point) {
      case kAttnNormOut:
        return a.normed;
      case kQPreRope:
        return a.q;
      case kKPreRope:
        return a.k;
      case kVProj:
        return a.v;
      case kQPostRope:
        return a.q_rot;
      case kKPostRope:
        return a.k_rot;
      case kAttnScores:
        return attention_.scores;
      case kAttnProbs:
        return attention_.probs;
      case kAttnOut:
        return a.attn;
      case kWoOut:
        return a.wo;
      case kResidualPostAttn:
        return a.x_mid;
      case kFfnNormIn:
        return a.ffn_normed;
      case kMlpOut:
        return a.mlp;
      case kResidualPostMlp:
      case kXOut:
        return a.x_out;
      case kFinalNorm:
      case kLmHeadIn:
        return act_.final_norm();
      case kLogits:
        return act_.logits();
      case kLogitsTop1:
      case kLogitsTopk:
        return act_.top(0);
      default:  // the residual stream
        return act_.embedded();
    }
  }

  /// The step of Forward::block that leaves the place's rows.
  void block(const LayerPlan& plan, const LayerWeights& w) {
    const ModelConfig& c = config_;
    LayerActivations& a = act_.layer(0);
    const float* const x = act_.embedded();
    if (place_.point == kAttnNormOut) {
      backend_.rms_norm(x, w.attn_norm, plan.attn_norm_eps, 1, c.dim, a.normed);
    } else if (place_.point <= kVProj) {
      project_qkv(plan, w, c.rms_eps, a.normed, a, backend_);
    } else if (place_.point <= kKPostRope) {
      const std::array<RopeTensor, 2> turned{
          {{a.q, c.n_heads, a.q_rot}, {a.k, c.n_kv_heads, a.k_rot}}};
      backend_.rope(plan.rope_shift, plan.rope, c.head_dim, turned);
    } else if (is_cache(place_.point)) {
      const std::array<RowStore, 2> rows{{{a.k_rot, cache_.k(0)}, {a.v, cache_.v(0)}}};
      backend_.store_rows(0, c.kv_dim(), place_.pos + plan.cache_shift, rows);
      keep_stale_tail(plan, place_.pos, cache_.k(0), c.kv_dim(), backend_);
      keep_stale_tail(plan, place_.pos, cache_.v(0), c.kv_dim(), backend_);
    } else if (is_attention(place_.point)) {
      const Activations::TracedQueries call{plan.shape, 0};
      attention_ = act_.attention_traces(a, {&call, 1}, place_.point == kAttnScores,
                                         place_.point == kAttnProbs)[0];
      backend_.attention(0, plan.attention, plan.shape, a.q_rot, cache_.k(0), cache_.v(0), a.attn,
                         attention_);
    } else if (place_.point <= kResidualPostAttn) {
      project_wo(plan, a.attn, {w.o, a.wo}, x, a.x_mid, backend_);
    } else if (place_.point == kFfnNormIn) {
      backend_.rms_norm(a.x_mid, w.ffn_norm, c.rms_eps, 1, c.dim, a.ffn_normed);
    } else {
      const FeedForward ffn{plan.gate_up, plan.down, w.gate, w.up, {w.down, a.mlp}};
      backend_.feed_forward(ffn, a.ffn_normed, 1, a.gated, a.x_mid, a.x_out);
      race(plan, a.mlp, c.dim, a.x_mid, a.x_out, backend_);
    }
  }

  /// The same before and after the stack.
  void around() {
    const ModelConfig& c = config_;
    if (place_.point == kEmbedOut) {
      backend_.embed(weights_.token_embd, 0, act_.embedded());
    } else if (place_.point <= kLmHeadIn) {
      backend_.rms_norm(act_.embedded(), weights_.output_norm, c.rms_eps, 1, c.dim,
                        act_.final_norm());
    } else if (place_.point == kLogits) {
      const Product product{weights_.output, act_.logits()};
      backend_.project(planner_.route(Op::kLmHead, true, batch_.moment()), act_.final_norm(), 1,
                       {&product, 1});
    } else {
      backend_.top_k(act_.logits(), c.vocab, TopLogits::kCount, act_.top(0));
    }
  }

  const ModelConfig& config_;
  const ModelWeights& weights_;
  Backend& backend_;
  Batch batch_;
  PairPlace place_;
  Planner planner_;
  Activations act_;
  KvCache cache_;  ///< of a single layer
  AttentionTrace attention_;
};

}  // namespace

std::vector<TracePoint> inputs_of(TracePoint point) {
  switch (point) {
    case kEmbedOut:
      return {};
    case kAttnNormOut:
      return {kResidualPreAttn};
    case kQPreRope:
    case kKPreRope:
    case kVProj:
      return {kAttnNormOut};
    case kQPostRope:
    case kKPostRope:
      return {kQPreRope, kKPreRope};
    case kKCache:
    case kVCache:
      return {kKPostRope, kVProj};
    case kAttnScores:
    case kAttnProbs:
    case kAttnOut:
      return {kQPostRope};
    case kWoOut:
    case kResidualPostAttn:
      return {kAttnOut, kResidualPreAttn};
    case kFfnNormIn:
      return {kResidualPostAttn};
    case kMlpOut:
    case kResidualPostMlp:
    case kXOut:
      return {kFfnNormIn, kResidualPostAttn};
    case kFinalNorm:
    case kLmHeadIn:
      return {kHidden};
    case kLogits:
      return {kLmHeadIn};
    case kLogitsTop1:
    case kLogitsTopk:
      return {kLogits};
    default:
      throw std::invalid_argument("no operation makes " + std::string(trace_point_name(point)) +
                                  ": it is a weight, or rows that came before");
  }
}

Replayed replay(const Model& model, const ModelWeights& weights, Backend& backend,
                ProbeOptions options, std::span<const ProbePrompt> together, size_t which,
                const PairPlace& place) {
  if (is_cache(place.point) && options.forward.mode == Mode::kKvAligned) {
    throw std::invalid_argument("in kv_aligned decode leaves the K and V rows to prefill");
  }
  options.selection = selection_of(place);
  const auto n_prompt = std::ssize(together[which].tokens);
  int64_t capacity = 0, n_tokens = 0;
  for (const ProbePrompt& prompt : together) {
    const int64_t n =
        std::ssize(prompt.tokens) + prompt.decode_steps.value_or(options.decode_steps);
    capacity = std::max(capacity, n);
    n_tokens += n;
  }
  options.sequences = std::ssize(together);
  if (together.size() > 1) {
    options.forward.max_batch = std::max(options.forward.max_batch, n_tokens);
  }
  RunRows rows(which, place.pos);
  Probe(model, weights, backend, capacity, options).run(together, rows);
  const TraceRecord& decoded = rows.row(true, place.point);
  const Batch batch{.tokens = {&decoded.token_id, 1},
                    .first_pos = place.pos,
                    .decode = true,
                    .step = decoded.step,
                    .n_prompt = n_prompt};
  const auto alone = [&](bool decode) {
    return Operation(model, weights, backend, options.forward, batch, place).on(decode, rows);
  };
  return {rows.row(false, place.point), decoded, alone(false), alone(true)};
}

}  // namespace greta
