#include "engine/forward/layer_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace greta {
namespace {

void check_fault(const Fault& fault, const ModelConfig& config, const Backend& backend) {
  if (fault.layer && *fault.layer >= config.n_layers) {
    throw std::invalid_argument("fault " + fault.text() + ": the model has layers 0 to " +
                                std::to_string(config.n_layers - 1));
  }
  if (fault.kind == FaultKind::kLmHeadRoute && backend.routes(Op::kLmHead).size() < 2) {
    throw std::invalid_argument("fault " + fault.text() + ": backend " + backend.name() +
                                " has one route for the LM head only");
  }
}

RopePairing other(RopePairing pairing) {
  return pairing == RopePairing::kHalves ? RopePairing::kInterleaved : RopePairing::kHalves;
}

}  // namespace

AttentionShape LayerPlan::shape_of(const Stretch& stretch) const {
  AttentionShape its = shape;
  its.n_tokens = stretch.n_tokens;
  its.first_pos = stretch.first_pos;
  its.cache_rows = stretch.cache_rows;
  return its;
}

Planner::Planner(const Model& model, const Backend& backend, RouteTable routes, FaultSet faults,
                 int64_t cache_rows)
    : model_(model),
      backend_(backend),
      routes_(routes),
      faults_(std::move(faults)),
      cache_rows_(cache_rows) {
  for (const Fault& fault : faults_.all()) {
    check_fault(fault, model.config(), backend);
    if (fault.kind == FaultKind::kRopeTheta || fault.kind == FaultKind::kRopeThetaKept) {
      inv_freq_of_theta_[fault.magnitude] = model.inv_freq_with_theta(fault.magnitude);
    }
  }
}

LayerPlan Planner::correct(const Batch& batch) const {
  const ModelConfig& c = model_.config();
  return {.qkv = routes_.of(Op::kQkv, batch.decode),
          .attention = routes_.of(Op::kAttention, batch.decode),
          .wo = routes_.of(Op::kWo, batch.decode),
          .gate_up = routes_.of(Op::kGateUp, batch.decode),
          .down = routes_.of(Op::kDown, batch.decode),
          .attn_norm_eps = c.rms_eps,
          .rope = model_.rope(),
          .shape = {.n_heads = c.n_heads,
                    .n_kv_heads = c.n_kv_heads,
                    .head_dim = c.head_dim,
                    .n_tokens = batch.size(),
                    .first_pos = batch.first_pos,
                    .cache_rows = cache_rows_,
                    .scale = 1 / std::sqrt(static_cast<float>(c.head_dim)),
                    .k_head_stride = c.head_dim}};
}

void Planner::inject(const Batch& batch, int layer, LayerPlan& plan) const {
  const auto fault = [&](FaultKind kind) {
    return faults_.find(kind, batch.decode, layer, batch.moment());
  };
  const auto whole = [&](FaultKind kind) { return static_cast<int64_t>(fault(kind).value_or(0)); };

  plan.attn_norm_eps *= static_cast<float>(fault(FaultKind::kRmsNormEps).value_or(1));
  plan.query_scale = static_cast<float>(fault(FaultKind::kQuantScale).value_or(1));
  plan.rope_shift = whole(FaultKind::kRopePosOffByOne);
  std::optional<double> theta = fault(FaultKind::kRopeTheta);
  if (!theta && longest_prompt_ > batch.n_prompt) theta = fault(FaultKind::kRopeThetaKept);
  if (theta) plan.rope.inv_freq = inv_freq_of_theta_.at(*theta);
  if (fault(FaultKind::kRopePairing)) plan.rope.pairing = other(plan.rope.pairing);
  plan.cache_shift = whole(FaultKind::kKvWrongSlot);
  plan.stale_tail = fault(FaultKind::kStaleKvTail).has_value();
  const auto factor = static_cast<float>(fault(FaultKind::kKCacheSpoiled).value_or(1));
  (batch.decode ? plan.row_0_before : plan.row_0_after) = factor;

  plan.shape.mask_shift = whole(FaultKind::kMaskOffByOne);
  plan.shape.k_head_stride += whole(FaultKind::kKvHeadStride);
  plan.shape.modulo_heads = fault(FaultKind::kGqaHeadMapping).has_value();
  plan.shape.v_transposed = fault(FaultKind::kVLayoutTransposed).has_value();
  if (const auto shift = fault(FaultKind::kSoftmaxNoMax)) {
    plan.shape.subtract_max = false;
    plan.shape.score_shift = static_cast<float>(*shift);
  }
  plan.fp16_step = whole(FaultKind::kFp16Accumulate);
  plan.race_hits = whole(FaultKind::kRace);
  plan.race_seed = race_seed(layer, batch.repeat);
}

std::vector<LayerPlan> Planner::layers(const Batch& batch) {
  std::vector<LayerPlan> plans(static_cast<size_t>(model_.config().n_layers), correct(batch));
  for (size_t i = 0; i < plans.size(); ++i) {
    plans[i].shape.window = model_.config().window_of(i);
    if (!faults_.all().empty()) inject(batch, static_cast<int>(i), plans[i]);
  }
  longest_prompt_ = std::max(longest_prompt_, batch.n_prompt);
  return plans;
}

Route Planner::route(Op op, bool decode, const Moment& at) const {
  const Route usual = routes_.of(op, decode);
  if (op != Op::kLmHead || !faults_.find(FaultKind::kLmHeadRoute, decode, 0, at)) return usual;
  const std::vector<Route> all = backend_.routes(op);
  return *std::find_if(all.begin(), all.end(), [&](Route other) { return other != usual; });
}

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
