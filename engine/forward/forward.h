#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/forward/backend.h"
#include "engine/forward/fault.h"
#include "engine/forward/model.h"
#include "engine/forward/route.h"
#include "engine/forward/tracer.h"

namespace greta {

/// Keys and values of every position so far, f32, in the backend's memory. One spare row beyond the
/// capacity, so that a write or a read one row too far stays inside.
class KvCache {
 public:
  /// Throws std::invalid_argument when the sizes do not fit an address space.
  KvCache(const ModelConfig& config, int64_t capacity, Backend& backend);

  int64_t capacity() const { return capacity_; }  ///< positions
  int64_t rows() const { return capacity_ + 1; }
  int64_t width() const { return width_; }  ///< values of a row: n_kv_heads · head_dim
  float* k(int64_t layer) { return k_[static_cast<size_t>(layer)].get(); }  ///< [rows, width]
  float* v(int64_t layer) { return v_[static_cast<size_t>(layer)].get(); }

  /// Overwrites all rows from `row` on with NaN, so that nothing stale can look clean.
  void poison_from(int64_t row);

 private:
  Backend& backend_;
  int64_t capacity_;
  int64_t width_;
  std::vector<Buffer> k_, v_;
};

/// How a forward pass computes.
struct ForwardOptions {
  Mode mode = Mode::kAsDesigned;
  RouteTable routes;
  FaultSet faults;
  int64_t max_batch = 512;  ///< tokens of one batch: activations are allocated for as many
};

/// One batch of consecutive tokens.
struct Batch {
  std::span<const int32_t> tokens;  ///< 1 .. max_batch ids, all below vocab
  /// The one token is the greatest of the batch before, whatever `tokens` says: it need not be
  /// known.
  bool after_top = false;
  int64_t first_pos = 0;
  bool decode = false;   ///< which routes and faults apply
  bool keep_kv = true;   ///< false: K and V are computed and traced, the cache stays as it is
  int64_t n_logits = 1;  ///< logits of the last n_logits tokens
};

/// The greatest logits of one token, greatest first; −1 and NaN where the vocabulary has no more.
/// The value of an id is NaN when no further logit is a number.
struct TopLogits {
  static constexpr int kCount = 5;
  std::array<int32_t, kCount> ids;
  std::array<float, kCount> values;
};

/// The Llama forward pass (Touvron et al. 2023), the same lines for every backend.
class Forward {
 public:
  /// weights are in the backend's memory. All references must outlive it. Allocates everything.
  /// Throws std::invalid_argument for a fault that this model or backend cannot have.
  Forward(const Model& model, const ModelWeights& weights, Backend& backend, KvCache& cache,
          ForwardOptions options);

  /// Runs a batch; its logits are then in logits(). Throws std::invalid_argument for a batch that
  /// does not fit, with the numbers. tracer: nullptr, or begun with the same batch.
  void run(const Batch& batch, Tracer* tracer);

  /// [n_logits, vocab] of the last batch, in the backend's memory.
  const float* logits() const { return logits_.get(); }
  int64_t n_logits() const { return batch_.n_logits; }  ///< more than asked when the head is traced
  /// The greatest logits of the last token of the batch run last, or of the one before it. Waits
  /// for that batch.
  TopLogits top(bool before = false) const;
  /// The readout of a batch whose greatest logits are `top`; it is at `step`, its last token at
  /// `pos`.
  ReadoutRecord readout(const TopLogits& top, Phase phase, int64_t step, int64_t pos) const;
  /// Residual stream after the stack and its norm, for the last n_logits tokens, [n_logits, dim].
  const float* hidden() const { return hidden_; }
  const float* final_norm() const { return final_norm_.get(); }

  const ForwardOptions& options() const { return options_; }
  /// Route of an operation, with an injected lm_head_route taken into account.
  Route route(Op op, bool decode) const;

  /// Overwrites every activation with NaN: what the next batch reads must be its own.
  void poison_activations();

 private:
  /// Grows when more is traced.
  struct TraceBuffer {
    Buffer memory;
    int64_t size = 0;
  };
  /// What a layer computes for the tokens of a batch, [tokens, ...] each: a buffer for every trace
  /// point.
  struct Activations {
    float *normed, *q, *k, *v, *q_rot, *k_rot, *attn, *wo, *x_mid, *ffn_normed, *gated, *mlp;
    float* x_out;
    TraceBuffer scores, probs;
  };
  /// Layers that follow each other in one piece of memory.
  struct LayerMemory {
    Buffer memory;
    int64_t size = 0;
    std::vector<Activations> layers;
  };
  LayerMemory make_layers(size_t n_layers, int64_t n_tokens);
  void choose_activations(const Tracer& trace);
  void block(int layer, Tracer& trace);
  void feed_forward(int layer, Tracer& trace);
  void rotate(int layer);
  void store_kv(int layer);
  void attend(int layer, Tracer& trace);
  AttentionTrace attention_trace(int layer, const Tracer& trace);
  void head(Tracer& trace);
  void check(const Batch& batch) const;
  void ensure_logits(int64_t n);
  std::optional<double> fault(FaultKind kind, int layer = 0) const;

  const Model& model_;
  const ModelConfig& config_;
  const ModelWeights& weights_;
  Backend& backend_;
  KvCache& cache_;
  ForwardOptions options_;
  std::vector<double> faulty_inv_freq_;
  Batch batch_;

  // Layers share the activations of a batch, but where the backend wants rows to stay.
  LayerMemory shared_, own_;    // of max_batch tokens, of one; the latter made when first needed
  bool shares_ = true;          // the batch in progress
  Activations* act_ = nullptr;  // of the layer in progress
  float* x_ = nullptr;          // residual stream that goes into it
  Buffer embedded_, embd_row_;  // [max_batch, dim]
  Buffer final_norm_, logits_, top_;  // of n_logits_ tokens
  int64_t n_logits_ = 0;
  const float* hidden_ = nullptr;
  std::array<int64_t, 2> top_reads_{};  // of the batch run last, and of the one before
};

}  // namespace greta
