#include "engine/forward/activations.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>
#include <string>
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
    head_rows_ = backend_.allocate(n_logits * config_.dim);
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

std::vector<AttentionTrace> Activations::attention_traces(LayerActivations& layer,
                                                          std::span<const TracedQueries> calls,
                                                          bool scores, bool probs) {
  std::vector<AttentionTrace> wanted(calls.size());
  if (!scores && !probs) return wanted;
  std::vector<int64_t> places;
  int64_t size = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    const auto& [shape, first_query] = calls[i];
    wanted[i].first_query = first_query;
    wanted[i].stride = (shape.first_pos + shape.n_tokens) * shape.n_heads;
    places.push_back(size);
    if (first_query == shape.n_tokens) continue;
    // One token's rows grow with every position: have room for the last one at once.
    size += std::max(shape.cache_rows * shape.n_heads,
                     (shape.n_tokens - first_query) * wanted[i].stride);
  }
  float* const all_scores = scores ? room(layer.scores, size) : nullptr;
  float* const all_probs = probs ? room(layer.probs, size) : nullptr;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].first_query == calls[i].shape.n_tokens) continue;
    if (scores) wanted[i].scores = all_scores + places[i];
    if (probs) wanted[i].probs = all_probs + places[i];
  }
  return wanted;
}

std::vector<std::array<float*, 2>> Activations::cache_traces(
    LayerActivations& layer, std::span<const TracedRows> stretches) {
  std::vector<int64_t> sizes;
  int64_t size = 0;
  for (const auto& [its, first_token, all] : stretches) {
    // One token's rows grow with every position: have room for the last one at once.
    const int64_t n = its.n_tokens - first_token;
    sizes.push_back((n == 0 ? 0 : all ? its.cache_rows : n) * config_.kv_dim());
    size += 2 * sizes.back();
  }
  float* next = room(layer.cache_rows, size);
  std::vector<std::array<float*, 2>> places;
  for (const int64_t n : sizes) {
    places.push_back({next, next + n});
    next += 2 * n;
  }
  return places;
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
      poison(layer.cache_rows.memory, layer.cache_rows.size);
    }
  }
  for (const Buffer* buffer : {&embedded_, &embd_row_}) poison(*buffer, max_batch_ * config_.dim);
  poison(head_rows_, n_logits_ * config_.dim);
  poison(final_norm_, n_logits_ * config_.dim);
  poison(logits_, n_logits_ * config_.vocab);
  poison(top_, n_logits_ * TopLogits::kWidth);
}

std::string_view kv_type_name(KvType type) { return type == KvType::kF16 ? "f16" : "f32"; }

KvType parse_kv_type(std::string_view name) {
  for (const KvType type : {KvType::kF32, KvType::kF16}) {
    if (name == kv_type_name(type)) return type;
  }
  throw std::invalid_argument("unknown type of a KV cache: " + std::string(name) +
                              "; there are f32 and f16");
}

KvCache::KvCache(const ModelConfig& config, int64_t capacity, Backend& backend, int64_t shared_rows,
                 KvType type)
    : backend_(backend),
      capacity_(capacity),
      shared_rows_(shared_rows),
      width_(config.kv_dim()),
      type_(type) {
  const auto n_words =
      static_cast<int64_t>(words_of(KvRows(nullptr, type_), all_rows() * width_).size());
  for (int64_t layer = 0; layer < config.n_layers; ++layer) {
    k_.push_back(backend.allocate(n_words));
    v_.push_back(backend.allocate(n_words));
    // A spare row is never written: whoever reads it must not find yesterday's memory.
    for (const KvRows& rows : {k(layer), v(layer)}) {
      const auto spare = words_of(rows + capacity_ * width_, (1 + shared_rows_) * width_);
      backend.fill(spare.data(), std::ssize(spare), 0);
    }
  }
}

void KvCache::poison(int64_t first_row, int64_t n_rows) {
  constexpr uint32_t kTwoNans = 0x7e007e00;
  const float nan = type_ == KvType::kF16 ? std::bit_cast<float>(kTwoNans)
                                          : std::numeric_limits<float>::quiet_NaN();
  for (int64_t layer = 0; layer < std::ssize(k_); ++layer) {
    for (const KvRows& rows : {k(layer), v(layer)}) {
      const auto words = words_of(rows + first_row * width_, n_rows * width_);
      backend_.fill(words.data(), std::ssize(words), nan);
    }
  }
}

void KvCache::copy(int64_t from, int64_t n_rows, int64_t to) {
  if (n_rows == 0) return;
  for (int64_t layer = 0; layer < std::ssize(k_); ++layer) {
    for (const KvRows& rows : {k(layer), v(layer)}) {
      const auto words = words_of(rows + from * width_, n_rows * width_);
      backend_.copy(words.data(), std::ssize(words), words_of(rows + to * width_, 0).data());
    }
  }
}

}  // namespace greta
