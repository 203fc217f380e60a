#pragma once

#include "engine/forward/activations.h"
#include "engine/forward/backend.h"
#include "engine/forward/layer_plan.h"

// Faults that are a wrong step, not a wrong number of a right one. Where a plan asks for none,
// these do what a correct engine does.

namespace greta {

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
