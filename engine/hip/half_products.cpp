#include "engine/hip/half_products.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <system_error>

#include "kernels/gpu/elementwise.h"
#include "kernels/gpu/weight_layout.h"

namespace greta {
namespace {

// Weights in 16 bits are made for as many rows at a time as fit this.
constexpr size_t kMostBytes = size_t{512} << 20;

bool is_half(const Matrix& w) { return w.type == WeightType::kF16 || w.type == WeightType::kBF16; }

int64_t rows_at_once(const Matrix& w) {
  const auto fit = static_cast<int64_t>(kMostBytes / sizeof(uint16_t)) / w.cols;
  return std::clamp<int64_t>(fit, 1, w.rows);
}

}  // namespace

HalfType HalfProducts::type_for(const Matrix& w) {
  return w.type == WeightType::kBF16 ? HalfType::kBF16 : HalfType::kF16;
}

HalfProducts::HalfProducts(Stream& stream, const std::function<void()>& make_room)
    : stream_(stream),
      x_("activations in 16 bits", make_room),
      weights_("weights in 16 bits", make_room) {
  const auto load = [&stream] {
    return Blas::available() ? std::make_unique<Blas>(stream) : nullptr;
  };
  try {
    loading_blas_ = std::async(std::launch::async, load);
  } catch (const std::system_error&) {  // no thread
    blas_ = load();
  }
}

Blas* HalfProducts::blas() const {
  if (loading_blas_.valid()) blas_ = loading_blas_.get();
  return blas_.get();
}

std::vector<Route> HalfProducts::routes() const {
  if (blas() == nullptr) return {Route::kMfma};
  return {Route::kBlas, Route::kMfma};
}

HalfProducts::Operands HalfProducts::prepare(Route route, int64_t n_tokens,
                                             std::span<const Matrix> weights) {
  if (route != Route::kMfma && !(route == Route::kBlas && blas() != nullptr)) {
    throw std::invalid_argument("the GPU has no route " + std::string(route_name(route)) +
                                " for a matrix product; it has " +
                                (blas() != nullptr ? "BLAS, " : "") + "MFMA and VALU");
  }
  Operands operands;
  size_t n_x = 0, n_most = 0, n_all = 0;
  operands.together = route == Route::kMfma;
  for (const Matrix& w : weights) {
    n_x = std::max(n_x, static_cast<size_t>(n_tokens * w.cols));
    if (is_half(w)) continue;
    const int64_t rows = rows_at_once(w);
    operands.together = operands.together && rows == w.rows;
    n_most = std::max(n_most, static_cast<size_t>(rows * w.cols));
    n_all += static_cast<size_t>(rows * w.cols);
  }
  operands.together = operands.together && n_all <= kMostBytes / sizeof(uint16_t);
  operands.x = x_.get(n_x);
  operands.weights = weights_.get(operands.together ? n_all : n_most);
  return operands;
}

void HalfProducts::multiply(Route route, const Operands& operands, const float* x, int64_t n_tokens,
                            std::span<const Product> products) {
  while (!products.empty()) {
    const HalfType type = type_for(products[0].w);
    const auto other =
        std::find_if(products.begin(), products.end(),
                     [type](const Product& product) { return type_for(product.w) != type; });
    const auto n = static_cast<size_t>(other - products.begin());
    halves_of(x, n_tokens * products[0].w.cols, type, operands.x, stream_);
    if (operands.together) {
      multiply_together(operands, n_tokens, products.first(n));
    } else {
      for (const Product& product : products.first(n)) {
        multiply(route, operands, n_tokens, product);
      }
    }
    products = products.subspan(n);
  }
}

void HalfProducts::multiply_together(const Operands& operands, int64_t n_tokens,
                                     std::span<const Product> products) {
  std::vector<HalfProduct> parts;
  uint16_t* expanded = operands.weights;
  for (const Product& product : products) {
    parts.push_back(part_of(operands, n_tokens, product, 0, product.w.rows, expanded));
    if (!is_half(product.w)) expanded += product.w.rows * product.w.cols;
  }
  matmul_mfma(parts, stream_);
}

HalfProduct HalfProducts::part_of(const Operands& operands, int64_t n_tokens,
                                  const Product& product, int64_t row, int64_t rows,
                                  uint16_t* expanded) {
  const Matrix& w = product.w;
  const auto* stored = reinterpret_cast<const uint16_t*>(w.data);
  if (!is_half(w)) {
    to_halves(w, row, rows, type_for(w), expanded, stream_);
    stored = expanded;
  }
  return {.type = type_for(w),
          .x = operands.x,
          .w = stored,
          .n_tokens = n_tokens,
          .rows = rows,
          .cols = w.cols,
          .out = product.out + row,
          .out_stride = w.rows};
}

void HalfProducts::multiply(Route route, const Operands& operands, int64_t n_tokens,
                            const Product& product) {
  const Matrix& w = product.w;
  const int64_t step = is_half(w) ? w.rows : rows_at_once(w);
  for (int64_t row = 0; row < w.rows; row += step) {
    const HalfProduct part =
        part_of(operands, n_tokens, product, row, std::min(step, w.rows - row), operands.weights);
    if (route == Route::kBlas) {
      blas_->matmul(part);
    } else {
      matmul_mfma(part, stream_);
    }
  }
}

}  // namespace greta
