#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "engine/forward/activations.h"
#include "engine/forward/backend.h"
#include "engine/forward/fault.h"
#include "engine/forward/model.h"
#include "engine/forward/route.h"
#include "kernels/attention_shape.h"
#include "kernels/rows.h"

// Faults that are a wrong step, not a wrong number of a right one. Where a plan asks for none,
// these do what a correct engine does.

namespace greta {

/// What the forward pass does to a batch in one layer, decided before it starts. A correct engine
/// takes every number from the model and the batch; a fault is one of them wrong.
struct LayerPlan {
  Route qkv{}, attention{}, wo{}, gate_up{}, down{};
  float attn_norm_eps = 0;
  int64_t rope_shift = 0;  ///< positions further than the tokens' own
  RopeTurn rope;
  int64_t cache_shift = 0;  ///< rows further than those of the tokens' positions go K and V
  AttentionShape shape;     ///< of all of the batch's tokens, at the first one's position

  /// That of a stretch of the batch.
  AttentionShape shape_of(const Stretch& stretch) const;

  // Steps that a correct engine does not have.
  float query_scale = 1;    ///< the query projection times this
  bool stale_tail = false;  ///< the last token's K and V rows keep what the row before holds
  /// Row 0 of the K cache times this before attention reads it, and after, of a sequence whose
  /// tokens have others before them.
  float row_0_before = 1, row_0_after = 1;
  int64_t fp16_step = 0;  ///< products of wo between roundings of the sum to fp16; 0: none
  int64_t race_hits = 0;  ///< values of mlp_out that take a bit from a neighbour
  uint64_t race_seed = 0;
};

/// Turns a model, routes and faults into plans.
class Planner {
 public:
  /// model and backend must outlive it. cache_rows: of the KV cache. Throws std::invalid_argument
  /// for a fault that this model or backend cannot have: it would make the run look sound.
  Planner(const Model& model, const Backend& backend, RouteTable routes, FaultSet faults,
          int64_t cache_rows);

  /// Plans of the next batch. A correct engine's depend on nothing before it.
  std::vector<LayerPlan> layers(const Batch& batch);
  /// Route of an operation, with an injected lm_head_route taken into account.
  Route route(Op op, bool decode, const Moment& at) const;

 private:
  LayerPlan correct(const Batch& batch) const;
  void inject(const Batch& batch, int layer, LayerPlan& plan) const;

  const Model& model_;
  const Backend& backend_;
  RouteTable routes_;
  FaultSet faults_;
  int64_t cache_rows_;
  std::map<double, std::vector<double>> inv_freq_of_theta_;  // by magnitude of the fault
  int64_t longest_prompt_ = 0;                               // of the batches so far
};

/// Queries, keys and values of normed rows x, [tokens, dim], as RoPE and the cache take them: the
/// products, queries times plan.query_scale, then biases and the norms of heads.
void project_qkv(const LayerPlan& plan, const LayerWeights& weights, float norm_eps, const float* x,
                 const LayerActivations& to, Backend& backend);

/// Puts what the row before holds, zeros before the first, into row `last`, the last token's, of a
/// cache [rows, width].
void keep_stale_tail(const LayerPlan& plan, int64_t last, const KvRows& cache, int64_t width,
                     Backend& backend);

/// A row [width] of a cache times `factor`.
void spoil_row(float factor, const KvRows& row, int64_t width, Backend& backend);

/// Backend::project_add by plan.wo, or with the sum rounded to fp16 on the way.
void project_wo(const LayerPlan& plan, const float* x, const Product& product,
                const float* residual, float* sum, Backend& backend);

/// mlp [n_tokens, dim] takes bits from its neighbours; sum = residual + mlp again.
void race(const LayerPlan& plan, float* mlp, int64_t dim, const float* residual, float* sum,
          Backend& backend);

}  // namespace greta
