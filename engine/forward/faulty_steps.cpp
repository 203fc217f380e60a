#include "engine/forward/faulty_steps.h"

namespace greta {

void scale_queries(const LayerPlan& plan, float* q, int64_t n, Backend& backend) {
  if (plan.query_scale != 1) backend.scale(q, n, plan.query_scale);
}

void keep_stale_tail(const LayerPlan& plan, float* cache, int64_t width, Backend& backend) {
  if (!plan.stale_tail) return;
  const int64_t last = plan.shape.first_pos + plan.shape.n_tokens - 1;
  if (last > 0) {
    backend.copy(cache + (last - 1) * width, width, cache + last * width);
  } else {
    backend.fill(cache, width, 0);
  }
}

void spoil_row(float factor, float* row, int64_t width, Backend& backend) {
  if (factor != 1) backend.scale(row, width, factor);
}

void project_wo(const LayerPlan& plan, const float* x, const Product& product,
                const float* residual, float* sum, Backend& backend) {
  const int64_t n = plan.shape.n_tokens;
  if (plan.fp16_step == 0) {
    backend.project_add(plan.wo, x, n, product, residual, sum);
  } else {
    backend.project_fp16_accumulate(x, n, plan.fp16_step, product);
    backend.add(residual, product.out, n * product.w.rows, sum);
  }
}

void race(const LayerPlan& plan, float* mlp, int64_t dim, const float* residual, float* sum,
          Backend& backend) {
  if (plan.race_hits == 0) return;
  backend.race(mlp, plan.shape.n_tokens, dim, plan.race_hits, plan.race_seed);
  backend.add(residual, mlp, plan.shape.n_tokens * dim, sum);
}

}  // namespace greta
