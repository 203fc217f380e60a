#include "tests/kernels/cpu/product_in_double.h"

namespace greta {

Expected multiply_in_double(const Values& weights, int64_t rows, const Values& x,
                            int64_t n_tokens) {
  const auto n_rows = static_cast<size_t>(rows);
  const size_t n = static_cast<size_t>(n_tokens) * n_rows, cols = weights.size() / n_rows;
  Expected expected{std::vector<double>(n), std::vector<double>(n)};
  for (size_t i = 0; i < n; ++i) {
    const float* row = weights.data() + i % n_rows * cols;
    const float* token = x.data() + i / n_rows * cols;
    double value = 0, square = 0;
    for (size_t k = 0; k < cols; ++k) {
      const double product = static_cast<double>(row[k]) * static_cast<double>(token[k]);
      value += product;
      square += product * product;
    }
    expected.value[i] = value;
    expected.square[i] = square;
  }
  return expected;
}

}  // namespace greta
