#pragma once

#include "engine/forward/backend.h"
#include "engine/forward/layer_plan.h"

// Faults that are a wrong step, not a wrong number of a right one. Where a plan asks for none,
// these do what a correct engine does.

namespace greta {

/// q [n] times plan.query_scale.
void scale_queries(const LayerPlan& plan, float* q, int64_t n, Backend& backend);

/// Puts what the row before holds, zeros before the first, into the last token's row of a cache
/// [rows, width].
void keep_stale_tail(const LayerPlan& plan, float* cache, int64_t width, Backend& backend);

/// A row [width] of a cache times `factor`.
void spoil_row(float factor, float* row, int64_t width, Backend& backend);

/// Backend::project_add by plan.wo, or with the sum rounded to fp16 on the way.
void project_wo(const LayerPlan& plan, const float* x, const Product& product,
                const float* residual, float* sum, Backend& backend);

/// mlp [n_tokens, dim] takes bits from its neighbours; sum = residual + mlp again.
void race(const LayerPlan& plan, float* mlp, int64_t dim, const float* residual, float* sum,
          Backend& backend);

}  // namespace greta
