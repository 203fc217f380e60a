#pragma once

#include <vector>

#include "engine/forward/backend.h"

namespace greta {

/// Both phases by these routes, whatever is usual.
inline RouteTable routes_by(const Backend& backend, Route product, Route attention) {
  std::vector<RouteChoice> choices;
  for (int i = 0; i < kOps; ++i) {
    const auto op = static_cast<Op>(i);
    choices.push_back({op, op == Op::kAttention ? attention : product});
  }
  return choose_routes(backend, Mode::kAsDesigned, choices);
}

}  // namespace greta
