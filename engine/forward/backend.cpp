#include "engine/forward/backend.h"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace greta {

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
