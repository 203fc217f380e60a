#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/forward/backend.h"
#include "engine/forward/model.h"
#include "kernels/attention_shape.h"

// Buffers of the forward pass, one for each trace point.

namespace greta {

/// Memory that grows when more is traced.
struct TraceBuffer {
  Buffer memory;
  int64_t size = 0;
};

/// What a layer computes for the tokens of a batch, f32 in the backend's memory: a buffer for every
/// trace point.
struct LayerActivations {
  float *normed, *wo, *x_mid, *ffn_normed, *mlp, *x_out;  ///< [tokens, dim]
  float *q, *q_rot, *attn;                                ///< [tokens, q_dim]
  float *k, *k_rot, *v;                                   ///< [tokens, kv_dim]
  float* gated;                                           ///< [tokens, ffn_dim]
  TraceBuffer scores, probs;
  TraceBuffer cache_rows;  ///< of a cache that is not f32
};

/// All buffers of a forward pass but the KV cache. Layers share theirs, but where the backend wants
/// rows to stay until a batch ends.
class Activations {
 public:
  /// Of batches of up to max_batch tokens.
  Activations(const ModelConfig& config, int64_t max_batch, Backend& backend);

  /// Makes room for a batch of n_tokens. traced: anything of it is.
  void begin_batch(int64_t n_tokens, bool traced, int64_t n_logits);

  LayerActivations& layer(int layer) {
    return shares_ ? shared_.layers[0] : own_.layers[static_cast<size_t>(layer)];
  }
  float* embedded() { return embedded_.get(); }  ///< [max_batch, dim]
  float* embd_row() { return embd_row_.get(); }  ///< [max_batch, dim]
  /// Where a layer's residual stream goes that comes from x: layers that share their activations
  /// have two places for it in turn.
  float* after(const float* x, const LayerActivations& layer) {
    return x == layer.x_out ? embedded_.get() : layer.x_out;
  }

  /// Of the n_logits tokens of the batch that have logits.
  float* head_rows() const { return head_rows_.get(); }    ///< [n_logits, dim], to be put together
  float* final_norm() const { return final_norm_.get(); }  ///< [n_logits, dim]
  float* logits() const { return logits_.get(); }          ///< [n_logits, vocab]
  float* top(int64_t row) const {                          ///< [TopLogits::kWidth]
    return top_.get() + row * TopLogits::kWidth;
  }
  bool unused() const { return n_logits_ == 0; }  ///< there was no batch yet

  /// A call of a layer's attention, and the first query that is traced; the number of all: none is.
  struct TracedQueries {
    AttentionShape shape;
    int64_t first_query = 0;
  };
  /// Where a layer's attention leaves what is wanted of the queries of each call; NaN where the
  /// memory is new.
  std::vector<AttentionTrace> attention_traces(LayerActivations& layer,
                                               std::span<const TracedQueries> calls, bool scores,
                                               bool probs);

  /// A stretch whose rows of the cache are traced from a token on, its number of tokens for none;
  /// all: and all before.
  struct TracedRows {
    Stretch stretch;
    int64_t first_token = 0;
    bool all = false;
  };
  /// Where those rows of K and of V go, by stretch.
  std::vector<std::array<float*, 2>> cache_traces(LayerActivations& layer,
                                                  std::span<const TracedRows> stretches);

  /// Overwrites everything with NaN: what the next batch reads must be its own.
  void poison();

 private:
  /// Layers that follow each other in one piece of memory.
  struct LayerMemory {
    Buffer memory;
    int64_t size = 0;
    std::vector<LayerActivations> layers;
  };
  LayerMemory make_layers(size_t n_layers, int64_t n_tokens);
  float* room(TraceBuffer& buffer, int64_t size);

  const ModelConfig& config_;
  int64_t max_batch_;
  Backend& backend_;
  LayerMemory shared_, own_;  // of max_batch tokens, of one; the latter made when first needed
  bool shares_ = true;        // the batch in progress
  Buffer embedded_, embd_row_;
  Buffer head_rows_, final_norm_, logits_, top_;  // of n_logits_ tokens
  int64_t n_logits_ = 0;
};

/// f32, f16.
std::string_view kv_type_name(KvType type);
/// Throws std::invalid_argument for another name, with those that there are.
KvType parse_kv_type(std::string_view name);

/// Keys and values of every position so far in the backend's memory. One spare row beyond the
/// capacity, so that a write or a read one row too far stays inside. Behind those of one sequence
/// there can be rows for others that are computed together.
class KvCache {
 public:
  /// shared_rows: of those others, spare ones included. Throws std::invalid_argument when the sizes
  /// do not fit an address space.
  KvCache(const ModelConfig& config, int64_t capacity, Backend& backend, int64_t shared_rows = 0,
          KvType type = KvType::kF32);

  int64_t capacity() const { return capacity_; }  ///< positions
  int64_t rows() const { return capacity_ + 1; }  ///< of the one sequence
  int64_t all_rows() const { return rows() + shared_rows_; }
  int64_t width() const { return width_; }  ///< values of a row: n_kv_heads · head_dim, even
  KvType type() const { return type_; }
  KvRows k(int64_t layer) { return rows_in(k_, layer); }  ///< [all_rows, width]
  KvRows v(int64_t layer) { return rows_in(v_, layer); }

  /// Overwrites rows of every layer with NaN, so that nothing stale can look clean.
  void poison(int64_t first_row, int64_t n_rows);
  /// The same from `row` on to the last of the one sequence.
  void poison_from(int64_t row) { poison(row, rows() - row); }
  /// Copies rows of every layer to where none of them lies.
  void copy(int64_t from, int64_t n_rows, int64_t to);

 private:
  KvRows rows_in(const std::vector<Buffer>& cache, int64_t layer) const {
    return {cache[static_cast<size_t>(layer)].get(), type_};
  }

  Backend& backend_;
  int64_t capacity_;
  int64_t shared_rows_;
  int64_t width_;
  KvType type_;
  std::vector<Buffer> k_, v_;
};

}  // namespace greta
