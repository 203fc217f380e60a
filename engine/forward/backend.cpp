#include "engine/forward/backend.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>

namespace greta {
namespace {

/// Throws std::invalid_argument for stretches that are not the batch's, or not of the cache's.
void check_stretches(const Batch& batch, const BatchLimits& limits) {
  int64_t n_tokens = 0;
  for (const Stretch& one : batch.stretches) {
    n_tokens += one.n_tokens;
    const bool fits = one.n_tokens > 0 && one.first_pos >= 0 && one.cache_row >= 0 &&
                      one.first_pos + one.n_tokens < one.cache_rows &&
                      one.cache_row + one.cache_rows <= limits.cache_rows;
    if (fits) continue;
    throw std::invalid_argument("positions " + std::to_string(one.first_pos) + " to " +
                                std::to_string(one.first_pos + one.n_tokens - 1) +
                                " of a sequence do not fit its " + std::to_string(one.cache_rows) +
                                " rows from " + std::to_string(one.cache_row) +
                                " on in a KV cache of " + std::to_string(limits.cache_rows));
  }
  if (n_tokens != batch.size() || batch.n_logits != 1 || batch.after_top) {
    throw std::invalid_argument("a batch of " + std::to_string(batch.size()) +
                                " tokens whose sequences have " + std::to_string(n_tokens) +
                                ", and logits of the last of each only");
  }
}

}  // namespace

void check_batch(const Batch& batch, const BatchLimits& limits) {
  const int64_t n = batch.size();
  if (n < 1 || n > limits.max_batch) {
    throw std::invalid_argument("a batch of " + std::to_string(n) + " tokens; it must have 1 to " +
                                std::to_string(limits.max_batch));
  }
  const bool of_several = !batch.stretches.empty();
  if (of_several) check_stretches(batch, limits);
  if (!of_several && (batch.first_pos < 0 || batch.first_pos + n > limits.capacity)) {
    throw std::invalid_argument("positions " + std::to_string(batch.first_pos) + " to " +
                                std::to_string(batch.first_pos + n - 1) +
                                " do not fit a KV cache of " + std::to_string(limits.capacity) +
                                " positions; raise --max-seq-len");
  }
  if (batch.n_logits < 1 || batch.n_logits > n) {
    throw std::invalid_argument("logits of " + std::to_string(batch.n_logits) + " of " +
                                std::to_string(n) + " tokens");
  }
  if (batch.after_top && (n != 1 || limits.first_batch)) {
    throw std::invalid_argument("the token after a batch is one, and there must be a batch before");
  }
  for (const int32_t id : batch.tokens) {
    if (batch.after_top) break;
    if (id < 0 || id >= limits.vocab) {
      throw std::invalid_argument("token id " + std::to_string(id) +
                                  " is not in the vocabulary of " + std::to_string(limits.vocab));
    }
  }
}

TopLogits unpack_top(std::span<const float, TopLogits::kWidth> top) {
  TopLogits unpacked{};
  for (size_t i = 0; i < TopLogits::kCount; ++i) {
    unpacked.values[i] = top[i];
    const auto id = std::bit_cast<int32_t>(top[TopLogits::kCount + i]);
    unpacked.ids[i] = std::isnan(top[i]) ? -1 : id;
  }
  return unpacked;
}

RouteTable choose_routes(const Backend& backend, Mode mode, std::span<const RouteChoice> choices) {
  std::array<Route, kOps> prefill{};
  std::array<Route, kOps> decode{};
  for (size_t op = 0; op < kOps; ++op) {
    const std::vector<Route> all = backend.routes(static_cast<Op>(op));
    const bool invariant = mode == Mode::kBatchInvariant;
    const Route same = backend.invariant_route(static_cast<Op>(op));
    prefill[op] = invariant ? same : all.front();
    decode[op] = invariant ? same : all.back();
  }
  RouteTable table(prefill, decode);
  for (const RouteChoice& choice : choices) {
    const std::vector<Route> all = backend.routes(choice.op);
    if (std::find(all.begin(), all.end(), choice.route) == all.end()) {
      std::string known;
      for (const Route route : all)
        known.append(known.empty() ? "" : ", ").append(route_name(route));
      throw std::invalid_argument("backend " + backend.name() + " has no route " +
                                  std::string(route_name(choice.route)) + " for " +
                                  std::string(op_name(choice.op)) + "; it has " + known);
    }
    if (choice.prefill) table.set(choice.op, false, choice.route);
    if (choice.decode) table.set(choice.op, true, choice.route);
  }
  return table;
}

ModelWeights upload_weights(const Model& model, Backend& backend, const LoadProgress& on_load) {
  const ModelConfig& c = model.config();
  ModelWeights weights = model.weights();
  std::vector<Matrix*> matrices{&weights.token_embd};
  for (LayerWeights& layer : weights.layers) {
    matrices.insert(matrices.end(),
                    {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down});
  }
  if (!c.tied) matrices.push_back(&weights.output);
  std::vector<Matrix> host;
  for (const Matrix* matrix : matrices) host.push_back(*matrix);
  const std::vector<Matrix> uploaded = backend.upload(host, on_load);
  for (size_t i = 0; i < matrices.size(); ++i) *matrices[i] = uploaded[i];
  if (c.tied) weights.output = weights.token_embd;

  const auto upload = [&](const float*& vector, int64_t n) {
    if (vector == nullptr) return;
    vector = backend.upload(std::span<const float>(vector, static_cast<size_t>(n)));
  };
  for (LayerWeights& layer : weights.layers) {
    for (const float** norm : {&layer.attn_norm, &layer.ffn_norm}) upload(*norm, c.dim);
    upload(layer.q_bias, c.q_dim());
    for (const float** bias : {&layer.k_bias, &layer.v_bias}) upload(*bias, c.kv_dim());
    for (const float** norm : {&layer.q_norm, &layer.k_norm}) upload(*norm, c.head_dim);
  }
  upload(weights.output_norm, c.dim);
  return weights;
}

}  // namespace greta
