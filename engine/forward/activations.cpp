#include "engine/forward/activations.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace greta {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

Activations::Activations(const ModelConfig& config, int64_t max_batch, Backend& backend)
    : config_(config), max_batch_(max_batch), backend_(backend) {
  shared_ = make_layers(1, max_batch_);
  for (Buffer* buffer : {&embedded_, &embd_row_}) {
    *buffer = backend_.allocate(max_batch_ * config_.dim);
  }
}

Activations::LayerMemory Activations::make_layers(size_t n_layers, int64_t n_tokens) {
  constexpr int64_t kAlign = 64;  // values
  LayerMemory made;
  made.layers.resize(n_layers);
  std::vector<std::pair<float**, int64_t>> places;
  for (LayerActivations& a : made.layers) {
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

void Activations::begin_batch(int64_t n_tokens, bool traced, int64_t n_logits) {
  if (n_logits > n_logits_) {
    final_norm_ = backend_.allocate(n_logits * config_.dim);
    logits_ = backend_.allocate(n_logits * config_.vocab);
    top_ = backend_.allocate(n_logits * TopLogits::kWidth);
    n_logits_ = n_logits;
  }
  shares_ = n_tokens > 1 || !traced || !backend_.fingerprints_at_end();
  if (!shares_ && own_.layers.empty()) {
    own_ = make_layers(static_cast<size_t>(config_.n_layers), 1);
  }
}

float* Activations::room(TraceBuffer& buffer, int64_t size) {
  if (size > buffer.size) {
    buffer = {backend_.allocate(size), size};
    backend_.fill(buffer.memory.get(), size, kNan);
  }
  return buffer.memory.get();
}

AttentionTrace Activations::attention_trace(LayerActivations& layer, const AttentionShape& shape,
                                            bool scores, bool probs, int64_t first_query) {
  if (!scores && !probs) return {};
  AttentionTrace wanted{.first_query = first_query,
                        .stride = (shape.first_pos + shape.n_tokens) * shape.n_heads};
  // One token's rows grow with every position: have room for the last one at once.
  const int64_t size =
      std::max(shape.cache_rows * shape.n_heads, (shape.n_tokens - first_query) * wanted.stride);
  if (scores) wanted.scores = room(layer.scores, size);
  if (probs) wanted.probs = room(layer.probs, size);
  return wanted;
}

void Activations::poison() {
  const auto poison = [this](const Buffer& buffer, int64_t n) {
    if (n > 0) backend_.fill(buffer.get(), n, kNan);
  };
  for (const LayerMemory* memory : {&shared_, &own_}) {
    poison(memory->memory, memory->size);
    for (const LayerActivations& layer : memory->layers) {
      poison(layer.scores.memory, layer.scores.size);
      poison(layer.probs.memory, layer.probs.size);
    }
  }
  for (const Buffer* buffer : {&embedded_, &embd_row_}) poison(*buffer, max_batch_ * config_.dim);
  poison(final_norm_, n_logits_ * config_.dim);
  poison(logits_, n_logits_ * config_.vocab);
  poison(top_, n_logits_ * TopLogits::kWidth);
}

}  // namespace greta
