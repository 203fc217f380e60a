#include "engine/forward/forward.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/stop_signal.h"
#include "engine/forward/faulty_steps.h"

namespace greta {

using enum TracePoint;

Forward::Forward(const Model& model, const ModelWeights& weights, Backend& backend, KvCache& cache,
                 ForwardOptions options)
    : model_(model),
      config_(model.config()),
      weights_(weights),
      backend_(backend),
      cache_(cache),
      options_(std::move(options)),
      planner_(model, backend, options_.routes, options_.faults, cache.rows()),
      act_(config_, options_.max_batch, backend) {}

void Forward::run(const Batch& batch, Tracer* tracer) {
  throw_if_stopped();
  check_batch(batch, {.max_batch = options_.max_batch,
                      .capacity = cache_.capacity(),
                      .vocab = config_.vocab,
                      .first_batch = act_.unused()});
  Tracer off({}, backend_);
  Tracer& trace = tracer != nullptr ? *tracer : off;
  const float* const top_before = act_.top(batch_.n_logits - 1);
  batch_ = batch;
  if (!trace.traced().empty()) {  // their logits are looked at, asked for or not
    batch_.n_logits = std::max(batch_.n_logits, batch.size() - trace.first_row());
  }
  act_.begin_batch(batch.size(), !trace.traced().empty(), batch_.n_logits);
  const std::vector<LayerPlan> plans = planner_.layers(batch);

  if (batch.after_top) {
    backend_.begin_next(top_before, TopLogits::kCount, batch.first_pos);
  } else {
    backend_.begin_batch(batch.tokens, batch.first_pos);
  }
  const float* x = embed(trace);
  for (int layer = 0; layer < config_.n_layers; ++layer) {
    x = block(layer, plans[static_cast<size_t>(layer)], x, trace);
    trace.flush();
  }
  head(x, trace);
  trace.flush();
  backend_.end_batch();
  model_.check_whole();
  const float* const top = act_.top(batch_.n_logits - 1);
  top_reads_ = {backend_.queue_read(top, TopLogits::kWidth), top_reads_[0]};
}

const float* Forward::embed(Tracer& trace) {
  float* const x = act_.embedded();
  backend_.embed(weights_.token_embd, 0, x);
  if (trace.wants(kEmbdWHash, 0)) {
    backend_.embed(weights_.token_embd, trace.first_row(), act_.embd_row());
    trace.note(kEmbdWHash, 0, act_.embd_row(), config_.dim, {}, trace.first_row());
  }
  trace.note(kEmbedOut, 0, x, config_.dim);
  return x;
}

const float* Forward::block(int layer, const LayerPlan& plan, const float* x, Tracer& trace) {
  const ModelConfig& c = config_;
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  LayerActivations& a = act_.layer(layer);
  float *const k_cache = cache_.k(layer), *const v_cache = cache_.v(layer);
  const int64_t n = plan.shape.n_tokens;

  trace.note(kResidualPreAttn, layer, x, c.dim);
  trace.note_shared(kRmsWeight, layer, w.attn_norm, c.dim);
  backend_.rms_norm(x, w.attn_norm, plan.attn_norm_eps, n, c.dim, a.normed);
  trace.note(kAttnNormOut, layer, a.normed, c.dim);

  project_qkv(plan, w, c.rms_eps, a.normed, a, backend_);
  trace.note(kQPreRope, layer, a.q, c.q_dim(), plan.qkv);
  trace.note(kKPreRope, layer, a.k, c.kv_dim(), plan.qkv);
  trace.note(kVProj, layer, a.v, c.kv_dim(), plan.qkv);

  const std::array<RopeTensor, 2> turned{{{a.q, c.n_heads, a.q_rot}, {a.k, c.n_kv_heads, a.k_rot}}};
  backend_.rope(plan.rope_pos, plan.rope, n, c.head_dim, turned);
  trace.note(kQPostRope, layer, a.q_rot, c.q_dim());
  trace.note(kKPostRope, layer, a.k_rot, c.kv_dim());

  if (batch_.keep_kv) {
    const std::array<RowStore, 2> rows{{{a.k_rot, k_cache}, {a.v, v_cache}}};
    backend_.store_rows(n, c.kv_dim(), plan.cache_row, rows);
    keep_stale_tail(plan, k_cache, c.kv_dim(), backend_);
    keep_stale_tail(plan, v_cache, c.kv_dim(), backend_);
  }
  spoil_row(plan.row_0_before, k_cache, c.kv_dim(), backend_);
  trace.note_cache(layer, k_cache, v_cache, c.kv_dim());

  const AttentionTrace wanted =
      act_.attention_trace(a, plan.shape, trace.wants(kAttnScores, layer),
                           trace.wants(kAttnProbs, layer), trace.first_row());
  backend_.attention(plan.attention, plan.shape, a.q_rot, k_cache, v_cache, a.attn, wanted);
  spoil_row(plan.row_0_after, k_cache, c.kv_dim(), backend_);
  trace.note_attention(layer, wanted, c.n_heads, plan.attention);
  trace.note(kAttnOut, layer, a.attn, c.q_dim(), plan.attention);

  project_wo(plan, a.attn, {w.o, a.wo}, x, a.x_mid, backend_);
  trace.note(kWoOut, layer, a.wo, c.dim, plan.wo);
  trace.note(kResidualPostAttn, layer, a.x_mid, c.dim);

  backend_.rms_norm(a.x_mid, w.ffn_norm, c.rms_eps, n, c.dim, a.ffn_normed);
  trace.note(kFfnNormIn, layer, a.ffn_normed, c.dim);

  float* const x_out = act_.after(x, a);
  const FeedForward ffn{plan.gate_up, plan.down, w.gate, w.up, {w.down, a.mlp}};
  backend_.feed_forward(ffn, a.ffn_normed, n, a.gated, a.x_mid, x_out);
  race(plan, a.mlp, c.dim, a.x_mid, x_out, backend_);
  trace.note(kMlpOut, layer, a.mlp, c.dim, plan.down);
  trace.note(kResidualPostMlp, layer, x_out, c.dim);
  trace.note(kXOut, layer, x_out, c.dim);
  return x_out;
}

void Forward::head(const float* x, Tracer& trace) {
  const ModelConfig& c = config_;
  const int64_t first = batch_.size() - batch_.n_logits;
  const Route lm_head = route(Op::kLmHead, batch_.decode);

  hidden_ = x + first * c.dim;
  trace.note(kHidden, kLayerAfterStack, hidden_, c.dim, {}, first);
  backend_.rms_norm(hidden_, weights_.output_norm, c.rms_eps, batch_.n_logits, c.dim,
                    act_.final_norm());
  trace.note(kFinalNorm, kLayerAfterStack, act_.final_norm(), c.dim, {}, first);
  trace.note(kLmHeadIn, kLayerAfterStack, act_.final_norm(), c.dim, {}, first);
  const Product product{weights_.output, act_.logits()};
  backend_.project(lm_head, act_.final_norm(), batch_.n_logits, {&product, 1});
  trace.watch(kLogits, kLayerAfterStack, act_.logits(), c.vocab, lm_head, first);

  find_top(batch_.n_logits - 1);  // always wanted: it chooses the next token
  for (size_t i = 0; i < trace.traced().size(); ++i) {
    const int64_t row = trace.traced()[i].row - first;
    if (row != batch_.n_logits - 1) find_top(row);
    trace.note_row(kLogitsTop1, kLayerAfterStack, i, act_.top(row), 1, lm_head);
    trace.note_row(kLogitsTopk, kLayerAfterStack, i, act_.top(row),
                   std::min<int64_t>(TopLogits::kCount, c.vocab), lm_head);
  }
}

void Forward::find_top(int64_t row) {
  backend_.top_k(act_.logits() + row * config_.vocab, config_.vocab, TopLogits::kCount,
                 act_.top(row));
}

TopLogits Forward::top(bool before) const {
  std::array<float, TopLogits::kWidth> both{};
  backend_.fetch_read(top_reads_[before ? 1 : 0], both);
  return unpack_top(both);
}

TopLogits Forward::top_of(int64_t token) const {
  if (token == batch_.size() - 1) return top();
  std::array<float, TopLogits::kWidth> both{};
  backend_.read(act_.top(logits_row(token)), TopLogits::kWidth, both.data());
  return unpack_top(both);
}

ReadoutRecord Forward::readout(const TopLogits& top, Phase phase, int64_t step, int64_t pos) const {
  return {.phase = phase,
          .step = step,
          .pos_id = pos,
          .top1_id = top.ids[0],
          .top1_logit = top.values[0],
          .top2_id = top.ids[1],
          .top2_logit = top.values[1],
          .vocab = config_.vocab,
          .route = planner_.route(Op::kLmHead, is_decode(phase), {pos, step, batch_.n_prompt}),
          .cpu_top1_id = {},
          .norm_error = {},
          .logits_error = {}};
}

}  // namespace greta
