#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/forward/activations.h"
#include "engine/forward/backend.h"
#include "engine/forward/fault.h"
#include "engine/forward/layer_plan.h"
#include "engine/forward/model.h"
#include "engine/forward/route.h"
#include "engine/forward/tracer.h"

// The forward pass.

namespace greta {

/// How a forward pass computes.
struct ForwardOptions {
  Mode mode = Mode::kAsDesigned;
  RouteTable routes;
  FaultSet faults;
  int64_t max_batch = 512;         ///< tokens of one batch: activations are allocated for as many
  KvType kv_cache = KvType::kF32;  ///< of the cache that whoever computes by these makes
};

/// The forward pass of Llama (Touvron et al. 2023) and of what differs from it by an Architecture
/// only, the same lines for every backend.
class Forward {
 public:
  /// weights are in the backend's memory. All references must outlive it. Allocates everything.
  /// Throws std::invalid_argument for a fault that this model or backend cannot have.
  Forward(const Model& model, const ModelWeights& weights, Backend& backend, KvCache& cache,
          ForwardOptions options);

  /// Runs a batch; its logits are then in logits(). Throws std::invalid_argument for a batch that
  /// does not fit, with the numbers, GgufError when the weights were cut short, Stopped when a
  /// signal asked for an end. tracer: nullptr, or begun with the same batch.
  void run(const Batch& batch, Tracer* tracer);

  /// [n_logits, vocab] of the last batch, in the backend's memory.
  const float* logits() const { return act_.logits(); }
  int64_t n_logits() const { return n_logits_; }  ///< more than asked where they are traced
  /// The greatest logits of the last token of the batch run last, or of the one before it. Waits
  /// for that batch.
  TopLogits top(bool before = false) const;
  /// The greatest logits of a batch on their way to the host. Those of the last three can be
  /// fetched.
  struct TopRead {
    int64_t number = 0;
    int64_t n_rows = 0;
  };
  TopRead top_read() const { return top_reads_[0]; }  ///< of the batch run last
  /// By row of the logits; of tokens that are neither traced nor the last of their sequence there
  /// is nothing to be found. Waits for the batch.
  std::vector<TopLogits> fetch(const TopRead& read) const;
  /// Where the logits of a token of the batch run last, by its number there, are among the
  /// n_logits() rows: of a traced one, or the last of its sequence.
  int64_t logits_row(int64_t token) const;
  /// The readout of a token whose greatest logits are `top`, in a prompt of n_prompt tokens.
  ReadoutRecord readout(const TopLogits& top, Phase phase, const Moment& at) const;
  /// Residual stream after the stack and its norm, of the tokens with logits, [n_logits, dim].
  const float* hidden() const { return hidden_; }
  const float* final_norm() const { return act_.final_norm(); }

  const ForwardOptions& options() const { return options_; }
  /// Route of an operation in the batch run last, with an injected lm_head_route taken into
  /// account.
  Route route(Op op, bool decode) const { return planner_.route(op, decode, batch_.moment()); }

  /// Overwrites every activation with NaN: what the next batch reads must be its own.
  void poison_activations() { act_.poison(); }

 private:
  // Each returns the residual stream that it leaves, [tokens, dim].
  const float* embed(Tracer& trace);
  const float* block(int layer, const LayerPlan& plan, const float* x, Tracer& trace);
  std::vector<TracedCache> readable_cache(int layer, LayerActivations& a, const Tracer& trace);
  void head(const float* x, Tracer& trace);
  const float* rows_with_logits(const float* x);
  void find_top(int64_t row);
  void place_stretches(const Tracer& trace);

  const Model& model_;
  const ModelConfig& config_;
  const ModelWeights& weights_;
  Backend& backend_;
  KvCache& cache_;
  ForwardOptions options_;
  Planner planner_;
  Activations act_;
  // The batch run last: where each stretch of it begins, and what has logits.
  struct Placed {
    Stretch stretch;
    int64_t first_row = 0;
    int64_t first_with_logits = 0;  // batch row, up to the stretch's end
    int64_t logits_row = 0;         // of that one
  };
  Batch batch_;
  std::vector<Placed> placed_;
  std::vector<Activations::TracedQueries> traced_queries_;
  int64_t n_logits_ = 0;
  const float* hidden_ = nullptr;
  std::array<TopRead, 2> top_reads_{};  // of the batch run last, and of the one before
};

}  // namespace greta
