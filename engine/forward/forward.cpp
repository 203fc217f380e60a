#include "engine/forward/forward.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "engine/forward/race.h"

namespace greta {
namespace {

/// Values and indices, as Backend::top_k leaves them.
constexpr int64_t kTopWidth = 2 * TopLogits::kCount;

/// A fault that could not take effect would make the run look sound.
void check_fault(const Fault& fault, const ModelConfig& config, const Backend& backend) {
  if (fault.layer && *fault.layer >= config.n_layers) {
    throw std::invalid_argument("fault " + fault.text() + ": the model has layers 0 to " +
                                std::to_string(config.n_layers - 1));
  }
  if (fault.kind == FaultKind::kLmHeadRoute && backend.routes(Op::kLmHead).size() < 2) {
    throw std::invalid_argument("fault " + fault.text() + ": backend " + backend.name() +
                                " has one route for the LM head only");
  }
}

}  // namespace

Forward::Forward(const Model& model, const ModelWeights& weights, Backend& backend, KvCache& cache,
                 ForwardOptions options)
    : model_(model),
      config_(model.config()),
      weights_(weights),
      backend_(backend),
      cache_(cache),
      options_(std::move(options)) {
  for (const Fault& fault : options_.faults.all()) check_fault(fault, config_, backend_);
  shared_ = make_layers(1, options_.max_batch);
  for (Buffer* buffer : {&embedded_, &embd_row_}) {
    *buffer = backend_.allocate(options_.max_batch * config_.dim);
  }
  for (const Fault& fault : options_.faults.all()) {
    if (fault.kind == FaultKind::kRopeTheta) {
      faulty_inv_freq_ = model_.inv_freq_with_theta(fault.magnitude);
    }
  }
}

Forward::LayerMemory Forward::make_layers(size_t n_layers, int64_t n_tokens) {
  constexpr int64_t kAlign = 64;  // values
  LayerMemory made;
  made.layers.resize(n_layers);
  std::vector<std::pair<float**, int64_t>> places;
  for (Activations& a : made.layers) {
    for (float** p : {&a.normed, &a.wo, &a.x_mid, &a.ffn_normed, &a.mlp, &a.x_out}) {
      places.emplace_back(p, config_.dim);
    }
    for (float** p : {&a.q, &a.q_rot, &a.attn}) places.emplace_back(p, config_.q_dim());
    for (float** p : {&a.k, &a.k_rot, &a.v}) places.emplace_back(p, config_.kv_dim());
    places.emplace_back(&a.gated, config_.ffn_dim);
  }
  const auto size_of = [&](int64_t width) {
    return (n_tokens * width + kAlign - 1) / kAlign * kAlign;
  };
  for (const auto& [place, width] : places) made.size += size_of(width);
  made.memory = backend_.allocate(made.size);
  float* next = made.memory.get();
  for (const auto& [place, width] : places) {
    *place = next;
    next += size_of(width);
  }
  return made;
}

/// Where rows must stay until the batch ends, every layer has its own.
void Forward::choose_activations(const Tracer& trace) {
  shares_ = batch_.tokens.size() > 1 || trace.traced().empty() || !backend_.prints_at_end();
  if (!shares_ && own_.layers.empty()) {
    own_ = make_layers(static_cast<size_t>(config_.n_layers), 1);
  }
}

std::optional<double> Forward::fault(FaultKind kind, int layer) const {
  return options_.faults.find(kind, batch_.decode, layer);
}

Route Forward::route(Op op, bool decode) const {
  const Route usual = options_.routes.of(op, decode);
  if (op != Op::kLmHead || !options_.faults.find(FaultKind::kLmHeadRoute, decode, 0)) return usual;
  const std::vector<Route> all = backend_.routes(op);
  return *std::find_if(all.begin(), all.end(), [&](Route other) { return other != usual; });
}

void Forward::run(const Batch& batch, Tracer* tracer) {
  check(batch);
  Tracer off({}, backend_);
  Tracer& trace = tracer != nullptr ? *tracer : off;
  const float* const top_before = top_.get() + (batch_.n_logits - 1) * kTopWidth;
  batch_ = batch;
  if (trace.wants_head()) {  // what is traced there must be computed
    const auto n = static_cast<int64_t>(batch.tokens.size());
    batch_.n_logits = std::max(batch_.n_logits, n - trace.traced().front().row);
  }
  ensure_logits(batch_.n_logits);
  choose_activations(trace);
  if (batch.after_top) {
    backend_.begin_next(top_before, TopLogits::kCount, batch.first_pos);
  } else {
    backend_.begin_batch(batch.tokens, batch.first_pos);
  }

  x_ = embedded_.get();
  backend_.embed(weights_.token_embd, 0, x_);
  if (trace.wants(TracePoint::kEmbdWHash, 0)) {
    const int64_t first = trace.traced().front().row;
    backend_.embed(weights_.token_embd, first, embd_row_.get());
    trace.note(TracePoint::kEmbdWHash, 0, embd_row_.get(), config_.dim, {}, first);
  }
  trace.note(TracePoint::kEmbedOut, 0, x_, config_.dim);
  for (int layer = 0; layer < config_.n_layers; ++layer) {
    act_ = shares_ ? &shared_.layers[0] : &own_.layers[static_cast<size_t>(layer)];
    block(layer, trace);
    trace.flush();
  }
  head(trace);
  trace.flush();
  backend_.end_batch();
  const float* const top = top_.get() + (batch_.n_logits - 1) * kTopWidth;
  top_reads_ = {backend_.queue_read(top, kTopWidth), top_reads_[0]};
}

void Forward::block(int layer, Tracer& trace) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  const auto n = static_cast<int64_t>(batch_.tokens.size());
  const Route qkv = route(Op::kQkv, batch_.decode);
  const Route wo = route(Op::kWo, batch_.decode);
  const int64_t dim = config_.dim;

  trace.note(TracePoint::kResidualPreAttn, layer, x_, dim);
  trace.note_shared(TracePoint::kRmsWeight, layer, w.attn_norm, dim);
  const float eps_factor = static_cast<float>(fault(FaultKind::kRmsNormEps, layer).value_or(1));
  backend_.rms_norm(x_, w.attn_norm, config_.rms_eps * eps_factor, n, dim, act_->normed);
  trace.note(TracePoint::kAttnNormOut, layer, act_->normed, dim);

  const std::array<Product, 3> products{{{w.q, act_->q}, {w.k, act_->k}, {w.v, act_->v}}};
  backend_.project(qkv, act_->normed, n, products);
  if (const auto factor = fault(FaultKind::kQuantScale, layer)) {
    backend_.scale(act_->q, n * config_.q_dim(), static_cast<float>(*factor));
  }
  trace.note(TracePoint::kQPreRope, layer, act_->q, config_.q_dim(), qkv);
  trace.note(TracePoint::kKPreRope, layer, act_->k, config_.kv_dim(), qkv);
  trace.note(TracePoint::kVProj, layer, act_->v, config_.kv_dim(), qkv);

  rotate(layer);
  trace.note(TracePoint::kQPostRope, layer, act_->q_rot, config_.q_dim());
  trace.note(TracePoint::kKPostRope, layer, act_->k_rot, config_.kv_dim());

  if (batch_.keep_kv) store_kv(layer);
  attend(layer, trace);

  const Product out{w.o, act_->wo};
  if (const auto step = fault(FaultKind::kFp16Accumulate, layer)) {
    backend_.project_fp16_accumulate(act_->attn, n, static_cast<int64_t>(*step), out);
    backend_.add(x_, act_->wo, n * dim, act_->x_mid);
  } else {
    backend_.project_add(wo, act_->attn, n, out, x_, act_->x_mid);
  }
  trace.note(TracePoint::kWoOut, layer, act_->wo, dim, wo);
  trace.note(TracePoint::kResidualPostAttn, layer, act_->x_mid, dim);

  feed_forward(layer, trace);
}

void Forward::feed_forward(int layer, Tracer& trace) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  const auto n = static_cast<int64_t>(batch_.tokens.size());
  const int64_t dim = config_.dim;
  const Route down = route(Op::kDown, batch_.decode);
  backend_.rms_norm(act_->x_mid, w.ffn_norm, config_.rms_eps, n, dim, act_->ffn_normed);
  trace.note(TracePoint::kFfnNormIn, layer, act_->ffn_normed, dim);
  const FeedForward ffn{.gate_up_route = route(Op::kGateUp, batch_.decode),
                        .down_route = down,
                        .gate = w.gate,
                        .up = w.up,
                        .down = {w.down, act_->mlp}};
  // Layers that share their activations have two places for the residual stream in turn.
  float* const x_next = x_ == act_->x_out ? embedded_.get() : act_->x_out;
  backend_.feed_forward(ffn, act_->ffn_normed, n, act_->gated, act_->x_mid, x_next);
  if (const auto count = fault(FaultKind::kRace, layer)) {
    backend_.race(act_->mlp, n, dim, static_cast<int64_t>(*count), race_seed(layer));
    backend_.add(act_->x_mid, act_->mlp, n * dim, x_next);
  }
  trace.note(TracePoint::kMlpOut, layer, act_->mlp, dim, down);
  trace.note(TracePoint::kResidualPostMlp, layer, x_next, dim);
  trace.note(TracePoint::kXOut, layer, x_next, dim);
  x_ = x_next;
}

void Forward::rotate(int layer) {
  const auto n = static_cast<int64_t>(batch_.tokens.size());
  const int64_t first_pos =
      batch_.first_pos +
      static_cast<int64_t>(fault(FaultKind::kRopePosOffByOne, layer).value_or(0));
  const std::vector<double>& inv_freq =
      fault(FaultKind::kRopeTheta, layer) ? faulty_inv_freq_ : model_.inv_freq();
  const RopePairing pairing =
      fault(FaultKind::kRopePairing, layer) ? RopePairing::kHalves : RopePairing::kInterleaved;
  const std::array<RopeTensor, 2> turned{
      {{act_->q, config_.n_heads, act_->q_rot}, {act_->k, config_.n_kv_heads, act_->k_rot}}};
  backend_.rope(first_pos, inv_freq, pairing, n, config_.head_dim, turned);
}

void Forward::store_kv(int layer) {
  const auto n = static_cast<int64_t>(batch_.tokens.size());
  const int64_t width = cache_.width();
  float* k = cache_.k(layer);
  float* v = cache_.v(layer);
  const int64_t shift = static_cast<int64_t>(fault(FaultKind::kKvWrongSlot, layer).value_or(0));
  const std::array<RowStore, 2> stores{{{act_->k_rot, k}, {act_->v, v}}};
  backend_.store_rows(n, width, batch_.first_pos + shift, stores);
  if (!fault(FaultKind::kStaleKvTail, layer)) return;
  const int64_t last = batch_.first_pos + n - 1;
  for (float* cache : {k, v}) {
    if (last > 0) {
      backend_.copy(cache + (last - 1) * width, width, cache + last * width);
    } else {
      backend_.fill(cache, width, 0);
    }
  }
}

void Forward::attend(int layer, Tracer& trace) {
  const auto n = static_cast<int64_t>(batch_.tokens.size());
  const std::span<const TracedToken> traced = trace.traced();
  for (size_t i = 0; i < traced.size(); ++i) {
    const int64_t offset = (batch_.first_pos + traced[i].row) * cache_.width();
    trace.note_row(TracePoint::kKCache, layer, i, cache_.k(layer) + offset, cache_.width());
    trace.note_row(TracePoint::kVCache, layer, i, cache_.v(layer) + offset, cache_.width());
  }
  AttentionShape shape{.n_heads = config_.n_heads,
                       .n_kv_heads = config_.n_kv_heads,
                       .head_dim = config_.head_dim,
                       .n_tokens = n,
                       .first_pos = batch_.first_pos,
                       .mask_shift = 0,
                       .cache_rows = cache_.rows(),
                       .scale = 1 / std::sqrt(static_cast<float>(config_.head_dim)),
                       .k_head_stride = config_.head_dim};
  if (const auto shift = fault(FaultKind::kMaskOffByOne, layer)) {
    shape.mask_shift = static_cast<int64_t>(*shift);
  }
  if (const auto extra = fault(FaultKind::kKvHeadStride, layer)) {
    shape.k_head_stride += static_cast<int64_t>(*extra);
  }
  shape.modulo_heads = fault(FaultKind::kGqaHeadMapping, layer).has_value();
  shape.v_transposed = fault(FaultKind::kVLayoutTransposed, layer).has_value();
  if (const auto shift = fault(FaultKind::kSoftmaxNoMax, layer)) {
    shape.subtract_max = false;
    shape.score_shift = static_cast<float>(*shift);
  }
  const Route attention = route(Op::kAttention, batch_.decode);
  const AttentionTrace wanted = attention_trace(layer, trace);
  backend_.attention(attention, shape, act_->q_rot, cache_.k(layer), cache_.v(layer), act_->attn,
                     wanted);
  for (size_t i = 0; i < traced.size(); ++i) {
    const int64_t offset = (traced[i].row - wanted.first_query) * wanted.stride;
    const int64_t n_scores = (batch_.first_pos + traced[i].row + 1) * config_.n_heads;
    if (wanted.scores != nullptr) {
      trace.note_row(TracePoint::kAttnScores, layer, i, wanted.scores + offset, n_scores,
                     attention);
    }
    if (wanted.probs != nullptr) {
      trace.note_row(TracePoint::kAttnProbs, layer, i, wanted.probs + offset, n_scores, attention);
    }
  }
  trace.note(TracePoint::kAttnOut, layer, act_->attn, config_.q_dim(), attention);
}

AttentionTrace Forward::attention_trace(int layer, const Tracer& trace) {
  const bool scores = trace.wants(TracePoint::kAttnScores, layer);
  const bool probs = trace.wants(TracePoint::kAttnProbs, layer);
  if (!scores && !probs) return {};
  const auto n = static_cast<int64_t>(batch_.tokens.size());
  AttentionTrace wanted{.first_query = trace.traced().front().row,
                        .stride = (batch_.first_pos + n) * config_.n_heads};
  // One token's rows grow with every position: have room for the last one at once.
  const int64_t size =
      std::max(cache_.rows() * config_.n_heads, (n - wanted.first_query) * wanted.stride);
  const auto room = [&](TraceBuffer& buffer) {
    if (size > buffer.size) {
      buffer = {backend_.allocate(size), size};
      backend_.fill(buffer.memory.get(), size, std::numeric_limits<float>::quiet_NaN());
    }
    return buffer.memory.get();
  };
  if (scores) wanted.scores = room(act_->scores);
  if (probs) wanted.probs = room(act_->probs);
  return wanted;
}

void Forward::head(Tracer& trace) {
  const auto n = static_cast<int64_t>(batch_.tokens.size());
  const int64_t first = n - batch_.n_logits;
  const Route lm_head = route(Op::kLmHead, batch_.decode);
  hidden_ = x_ + first * config_.dim;
  backend_.rms_norm(hidden_, weights_.output_norm, config_.rms_eps, batch_.n_logits, config_.dim,
                    final_norm_.get());
  const Product product{weights_.output, logits_.get()};
  backend_.project(lm_head, final_norm_.get(), batch_.n_logits, {&product, 1});

  trace.note(TracePoint::kHidden, kLayerAfterStack, hidden_, config_.dim, {}, first);
  trace.note(TracePoint::kFinalNorm, kLayerAfterStack, final_norm_.get(), config_.dim, {}, first);
  trace.note(TracePoint::kLmHeadIn, kLayerAfterStack, final_norm_.get(), config_.dim, {}, first);
  trace.note(TracePoint::kLogits, kLayerAfterStack, logits_.get(), config_.vocab, lm_head, first);
  // The last token's are always wanted: they choose the next one.
  const auto top_of = [&](int64_t row) { return top_.get() + row * kTopWidth; };
  const auto find_top = [&](int64_t row) {
    backend_.top_k(logits_.get() + row * config_.vocab, config_.vocab, TopLogits::kCount,
                   top_of(row));
  };
  find_top(batch_.n_logits - 1);
  const int64_t k = std::min<int64_t>(TopLogits::kCount, config_.vocab);
  for (size_t i = 0; i < trace.traced().size(); ++i) {
    const int64_t row = trace.traced()[i].row - first;
    if (row < 0) continue;
    if (row != batch_.n_logits - 1) find_top(row);
    trace.note_row(TracePoint::kLogitsTop1, kLayerAfterStack, i, top_of(row), 1, lm_head);
    trace.note_row(TracePoint::kLogitsTopk, kLayerAfterStack, i, top_of(row), k, lm_head);
  }
}

TopLogits Forward::top(bool before) const {
  std::array<float, kTopWidth> both{};
  backend_.fetch_read(top_reads_[before ? 1 : 0], both);
  TopLogits top{};
  for (size_t i = 0; i < TopLogits::kCount; ++i) {
    top.values[i] = both[i];
    top.ids[i] = std::bit_cast<int32_t>(both[TopLogits::kCount + i]);
  }
  return top;
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
          .route = route(Op::kLmHead, is_decode(phase)),
          .cpu_top1_id = {}};
}

void Forward::check(const Batch& batch) const {
  const auto n = static_cast<int64_t>(batch.tokens.size());
  if (n < 1 || n > options_.max_batch) {
    throw std::invalid_argument("a batch of " + std::to_string(n) + " tokens; it must have 1 to " +
                                std::to_string(options_.max_batch));
  }
  if (batch.first_pos < 0 || batch.first_pos + n > cache_.capacity()) {
    throw std::invalid_argument("positions " + std::to_string(batch.first_pos) + " to " +
                                std::to_string(batch.first_pos + n - 1) +
                                " do not fit a KV cache of " + std::to_string(cache_.capacity()) +
                                " positions; raise --max-seq-len");
  }
  if (batch.n_logits < 1 || batch.n_logits > n) {
    throw std::invalid_argument("logits of " + std::to_string(batch.n_logits) + " of " +
                                std::to_string(n) + " tokens");
  }
  if (batch.after_top && (n != 1 || n_logits_ == 0)) {
    throw std::invalid_argument("the token after a batch is one, and there must be a batch before");
  }
  for (const int32_t id : batch.tokens) {
    if (batch.after_top) break;
    if (id < 0 || id >= config_.vocab) {
      throw std::invalid_argument("token id " + std::to_string(id) +
                                  " is not in the vocabulary of " + std::to_string(config_.vocab));
    }
  }
}

void Forward::ensure_logits(int64_t n) {
  if (n <= n_logits_) return;
  final_norm_ = backend_.allocate(n * config_.dim);
  logits_ = backend_.allocate(n * config_.vocab);
  top_ = backend_.allocate(n * kTopWidth);
  n_logits_ = n;
}

void Forward::poison_activations() {
  const auto poison = [this](const Buffer& buffer, int64_t n) {
    if (n > 0) backend_.fill(buffer.get(), n, std::numeric_limits<float>::quiet_NaN());
  };
  for (const LayerMemory* memory : {&shared_, &own_}) {
    poison(memory->memory, memory->size);
    for (const Activations& act : memory->layers) {
      poison(act.scores.memory, act.scores.size);
      poison(act.probs.memory, act.probs.size);
    }
  }
  for (const Buffer* buffer : {&embedded_, &embd_row_}) {
    poison(*buffer, options_.max_batch * config_.dim);
  }
  poison(final_norm_, n_logits_ * config_.dim);
  poison(logits_, n_logits_ * config_.vocab);
  poison(top_, n_logits_ * kTopWidth);
}

}  // namespace greta
