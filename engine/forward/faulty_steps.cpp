#include "engine/forward/faulty_steps.h"

#include <array>
#include <span>

namespace greta {

void project_qkv(const LayerPlan& plan, const LayerWeights& weights, float norm_eps, const float* x,
                 const LayerActivations& to, Backend& backend) {
  const AttentionShape& s = plan.shape;
  const LayerWeights& w = weights;
  const std::array<Product, 3> products{{{w.q, to.q}, {w.k, to.k}, {w.v, to.v}}};
  backend.project(plan.qkv, x, s.n_tokens, products);
  if (plan.query_scale != 1) {
    backend.scale(to.q, s.n_tokens * s.n_heads * s.head_dim, plan.query_scale);
  }
  std::array<HeadTensor, 3> heads;
  size_t n_tensors = 0;
  for (const HeadTensor& tensor : {HeadTensor{to.q, s.n_heads, w.q_bias, w.q_norm},
                                   HeadTensor{to.k, s.n_kv_heads, w.k_bias, w.k_norm},
                                   HeadTensor{to.v, s.n_kv_heads, w.v_bias, nullptr}}) {
    if (tensor.bias != nullptr || tensor.norm != nullptr) heads[n_tensors++] = tensor;
  }
  if (n_tensors == 0) return;
  backend.finish_heads(s.n_tokens, s.head_dim, norm_eps, std::span(heads).first(n_tensors));
}

void keep_stale_tail(const LayerPlan& plan, int64_t last, const KvRows& cache, int64_t width,
                     Backend& backend) {
  if (!plan.stale_tail) return;
  const std::span<float> tail = words_of(cache + last * width, width);
  if (last > 0) {
    backend.copy(words_of(cache + (last - 1) * width, width).data(), std::ssize(tail), tail.data());
  } else {
    backend.fill(tail.data(), std::ssize(tail), 0);
  }
}

void spoil_row(float factor, const KvRows& row, int64_t width, Backend& backend) {
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
