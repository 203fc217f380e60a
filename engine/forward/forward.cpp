#include "engine/forward/forward.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "common/stop_signal.h"

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
                      .cache_rows = cache_.all_rows(),
                      .vocab = config_.vocab,
                      .first_batch = act_.unused()});
  Tracer off({}, backend_);
  Tracer& trace = tracer != nullptr ? *tracer : off;
  const float* const top_before = batch.after_top ? act_.top(n_logits_ - 1) : nullptr;
  batch_ = batch;
  place_stretches(trace);
  act_.begin_batch(batch.size(), !trace.traced().empty(), n_logits_);
  const std::vector<LayerPlan> plans = planner_.layers(batch);

  if (batch.after_top) {
    backend_.begin_next(top_before, TopLogits::kCount, batch.first_pos);
  } else {
    std::vector<Stretch> stretches;
    for (const Placed& one : placed_) stretches.push_back(one.stretch);
    backend_.begin_batch(batch.tokens, stretches);
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
  const int64_t read = backend_.queue_read(act_.top(0), n_logits_ * TopLogits::kWidth);
  top_reads_ = {TopRead{read, n_logits_}, top_reads_[0]};
}

/// Where the batch's stretches lie, and the logits that they have: as many as asked, and of every
/// token that is traced.
void Forward::place_stretches(const Tracer& trace) {
  const Stretch whole{.n_tokens = batch_.size(),
                      .first_pos = batch_.first_pos,
                      .cache_row = 0,
                      .cache_rows = cache_.rows()};
  placed_.clear();
  n_logits_ = 0;
  int64_t row = 0;
  for (const Stretch& one : batch_.stretches.empty() ? std::span(&whole, 1) : batch_.stretches) {
    const int64_t untraced = trace.first_of(row, one.n_tokens);
    const int64_t n = std::max(batch_.n_logits, one.n_tokens - untraced);
    placed_.push_back({one, row, row + one.n_tokens - n, n_logits_});
    n_logits_ += n;
    row += one.n_tokens;
  }
  batch_.tokens = {};  // the caller's, as are the stretches
  batch_.stretches = {};
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
  const KvRows k_cache = cache_.k(layer), v_cache = cache_.v(layer);
  const int64_t n = plan.shape.n_tokens, kv_dim = c.kv_dim(), q_dim = c.q_dim();

  trace.note(kResidualPreAttn, layer, x, c.dim);
  trace.note_shared(kRmsWeight, layer, w.attn_norm, c.dim);
  backend_.rms_norm(x, w.attn_norm, plan.attn_norm_eps, n, c.dim, a.normed);
  trace.note(kAttnNormOut, layer, a.normed, c.dim);

  project_qkv(plan, w, c.rms_eps, a.normed, a, backend_);
  trace.note(kQPreRope, layer, a.q, c.q_dim(), plan.qkv);
  trace.note(kKPreRope, layer, a.k, c.kv_dim(), plan.qkv);
  trace.note(kVProj, layer, a.v, c.kv_dim(), plan.qkv);

  const std::array<RopeTensor, 2> turned{{{a.q, c.n_heads, a.q_rot}, {a.k, c.n_kv_heads, a.k_rot}}};
  backend_.rope(plan.rope_shift, plan.rope, c.head_dim, turned);
  trace.note(kQPostRope, layer, a.q_rot, q_dim);
  trace.note(kKPostRope, layer, a.k_rot, kv_dim);

  for (size_t i = 0; i < placed_.size(); ++i) {
    const auto& [its, first_row, logits, at] = placed_[i];
    const KvRows k = k_cache + its.cache_row * kv_dim, v = v_cache + its.cache_row * kv_dim;
    const int64_t end = its.first_pos + its.n_tokens;
    if (batch_.keep_kv) {
      const std::array<RowStore, 2> rows{
          {{a.k_rot + first_row * kv_dim, k}, {a.v + first_row * kv_dim, v}}};
      backend_.store_rows(i, kv_dim, its.first_pos + plan.cache_shift, rows);
      keep_stale_tail(plan, end - 1, k, kv_dim, backend_);
      keep_stale_tail(plan, end - 1, v, kv_dim, backend_);
    }
    if (end > 1) spoil_row(plan.row_0_before, k, kv_dim, backend_);  // else it is the token's own
  }
  trace.note_cache(layer, readable_cache(layer, a, trace), kv_dim);

  traced_queries_.clear();
  for (const Placed& one : placed_) {
    traced_queries_.push_back(
        {plan.shape_of(one.stretch), trace.first_of(one.first_row, one.stretch.n_tokens)});
  }
  const std::vector<AttentionTrace> wanted = act_.attention_traces(
      a, traced_queries_, trace.wants(kAttnScores, layer), trace.wants(kAttnProbs, layer));
  for (size_t i = 0; i < placed_.size(); ++i) {
    const auto& [its, first_row, logits, at] = placed_[i];
    const KvRows k = k_cache + its.cache_row * kv_dim, v = v_cache + its.cache_row * kv_dim;
    backend_.attention(i, plan.attention, traced_queries_[i].shape, a.q_rot + first_row * q_dim, k,
                       v, a.attn + first_row * q_dim, wanted[i]);
    if (its.first_pos + its.n_tokens > 1) spoil_row(plan.row_0_after, k, kv_dim, backend_);
  }
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

/// Where the keys and values of each stretch are f32: in the cache itself, or copied from there as
/// far as they are traced.
std::vector<TracedCache> Forward::readable_cache(int layer, LayerActivations& a,
                                                 const Tracer& trace) {
  std::vector<TracedCache> caches;
  const bool all = trace.wants(kKCacheRows, layer) || trace.wants(kVCacheRows, layer);
  const bool any = all || trace.wants(kKCache, layer) || trace.wants(kVCache, layer);
  if (!any) return caches;
  const int64_t width = config_.kv_dim();
  std::vector<Activations::TracedRows> wanted;
  for (const Placed& one : placed_) {
    const int64_t row = one.stretch.cache_row * width;
    const KvRows k = cache_.k(layer) + row, v = cache_.v(layer) + row;
    if (cache_.type() == KvType::kF32) {
      caches.push_back({static_cast<const float*>(k.data), static_cast<const float*>(v.data), 0});
      continue;
    }
    const int64_t first = trace.first_of(one.first_row, one.stretch.n_tokens);
    wanted.push_back({one.stretch, first, all});
  }
  if (cache_.type() == KvType::kF32) return caches;
  const std::vector<std::array<float*, 2>> places = act_.cache_traces(a, wanted);
  for (size_t i = 0; i < placed_.size(); ++i) {
    const auto& [its, first, whole] = wanted[i];
    const auto& [k, v] = places[i];
    caches.push_back({k, v, all ? 0 : its.first_pos + first});
    if (first == its.n_tokens) continue;
    const int64_t row = its.cache_row * width;
    backend_.read_rows(i, width, all ? std::nullopt : std::optional(first),
                       {{{cache_.k(layer) + row, k}, {cache_.v(layer) + row, v}}});
  }
  return caches;
}

void Forward::head(const float* x, Tracer& trace) {
  const ModelConfig& c = config_;
  const Route lm_head = route(Op::kLmHead, batch_.decode);
  const int64_t vocab = c.vocab;

  hidden_ = rows_with_logits(x);
  backend_.rms_norm(hidden_, weights_.output_norm, c.rms_eps, n_logits_, c.dim, act_.final_norm());
  const Product product{weights_.output, act_.logits()};
  backend_.project(lm_head, act_.final_norm(), n_logits_, {&product, 1});

  const size_t n_traced = trace.traced().size();
  const auto row_of = [&](size_t i) { return logits_row(trace.traced()[i].row); };
  const auto note = [&](TracePoint point, const float* rows) {
    for (size_t i = 0; i < n_traced; ++i) {
      trace.note_row(point, kLayerAfterStack, i, rows + row_of(i) * c.dim, c.dim);
    }
  };
  note(kHidden, hidden_);
  note(kFinalNorm, act_.final_norm());
  note(kLmHeadIn, act_.final_norm());
  for (size_t i = 0; i < n_traced; ++i) {
    trace.watch_row(kLogits, kLayerAfterStack, i, act_.logits() + row_of(i) * vocab, vocab,
                    lm_head);
  }

  // That of a sequence's last token is always wanted: it chooses the next one.
  std::vector<int64_t> lasts;
  for (const Placed& one : placed_) {
    lasts.push_back(logits_row(one.first_row + one.stretch.n_tokens - 1));
    find_top(lasts.back());
  }
  for (size_t i = 0; i < n_traced; ++i) {
    const int64_t row = row_of(i);
    if (!std::binary_search(lasts.begin(), lasts.end(), row)) find_top(row);
    trace.note_row(kLogitsTop1, kLayerAfterStack, i, act_.top(row), 1, lm_head);
    trace.note_row(kLogitsTopk, kLayerAfterStack, i, act_.top(row),
                   std::min<int64_t>(TopLogits::kCount, vocab), lm_head);
  }
}

/// The rows of x whose tokens have logits, one after the other.
const float* Forward::rows_with_logits(const float* x) {
  const int64_t dim = config_.dim;
  const Placed& first = placed_.front();
  const Placed& last = placed_.back();
  const int64_t n_rows = last.first_row + last.stretch.n_tokens - first.first_with_logits;
  if (n_rows == n_logits_) return x + first.first_with_logits * dim;
  for (const Placed& one : placed_) {
    const int64_t n = one.first_row + one.stretch.n_tokens - one.first_with_logits;
    backend_.copy(x + one.first_with_logits * dim, n * dim,
                  act_.head_rows() + one.logits_row * dim);
  }
  return act_.head_rows();
}

int64_t Forward::logits_row(int64_t token) const {
  const auto after = std::partition_point(
      placed_.begin(), placed_.end(), [&](const Placed& one) { return one.first_row <= token; });
  const Placed& its = *std::prev(after);
  return its.logits_row + token - its.first_with_logits;
}

void Forward::find_top(int64_t row) {
  backend_.top_k(act_.logits() + row * config_.vocab, config_.vocab, TopLogits::kCount,
                 act_.top(row));
}

TopLogits Forward::top(bool before) const { return fetch(top_reads_[before ? 1 : 0]).back(); }

std::vector<TopLogits> Forward::fetch(const TopRead& read) const {
  std::vector<float> rows(static_cast<size_t>(read.n_rows * TopLogits::kWidth));
  backend_.fetch_read(read.number, rows);
  std::vector<TopLogits> tops;
  for (int64_t i = 0; i < read.n_rows; ++i) {
    tops.push_back(unpack_top(std::span(rows)
                                  .subspan(static_cast<size_t>(i * TopLogits::kWidth))
                                  .first<TopLogits::kWidth>()));
  }
  return tops;
}

ReadoutRecord Forward::readout(const TopLogits& top, Phase phase, const Moment& at) const {
  return {.phase = phase,
          .step = at.step,
          .pos_id = at.pos,
          .top1_id = top.ids[0],
          .top1_logit = top.values[0],
          .top2_id = top.ids[1],
          .top2_logit = top.values[1],
          .vocab = config_.vocab,
          .route = std::string(route_name(planner_.route(Op::kLmHead, is_decode(phase), at))),
          .cpu_top1_id = {},
          .norm_error = {},
          .logits_error = {}};
}

}  // namespace greta
