#pragma once

#include <cstdint>
#include <vector>

#include "tests/kernels/values.h"

namespace greta {

/// What a product of weights with tokens is held against, a row of outputs per token.
struct Expected {
  std::vector<double> value;
  std::vector<double> square;  // Σ (w·x)²
};

/// Weights of `rows` rows.
Expected multiply_in_double(const Values& weights, int64_t rows, const Values& x, int64_t n_tokens);

}  // namespace greta
