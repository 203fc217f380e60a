#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/gpu/matmul_mfma.h"
#include "kernels/gpu/matmul_valu.h"
#include "kernels/gpu/weight_layout.h"
#include "tests/bench/gpu/gpu_bench.h"

// Products of one token with the matrices of a model of 8 billion weights (hidden size 4096, 32
// heads and 8 of keys and values, 14336 gated values, 128256 words), and of a few tokens.

namespace greta {
namespace {

constexpr int64_t kDim = 4096, kKv = 1024, kHidden = 14336, kVocabulary = 128256;

// Each matrix has copies, used in turn, so that no cache holds what comes next.
constexpr size_t kLeastBytes = size_t{512} << 20;

DeviceBuffer<std::byte> random_bytes(size_t n, Stream& stream) {
  constexpr size_t kPattern = size_t{16} << 20;
  DeviceBuffer<std::byte> result(n, "weights");
  std::vector<uint32_t> words(kPattern / 4);
  std::mt19937 random(1);
  // No 16 bits are an infinite or NaN f16 or bf16, wherever a scale lies.
  for (uint32_t& word : words) word = random() & 0xbfffbfffu;
  const auto* const pattern = reinterpret_cast<const std::byte*>(words.data());
  for (size_t at = 0; at < n; at += kPattern) {
    copy_to_device<std::byte>({pattern, std::min(kPattern, n - at)}, result.data() + at, stream);
  }
  return result;
}

struct Operands {
  std::vector<DeviceBuffer<std::byte>> weights;
  DeviceBuffer<float> x, out, residual, sum;
  size_t turn = 0;

  const std::byte* next() { return weights[turn++ % weights.size()].data(); }
};

/// w: all matrices of a case, one below the other, but for its data.
std::shared_ptr<Operands> make_operands(const Matrix& w, int64_t n_tokens) {
  auto operands = std::make_shared<Operands>();
  Stream stream;
  const size_t copies = std::max<size_t>(1, (kLeastBytes + w.bytes() - 1) / w.bytes());
  for (size_t i = 0; i < copies; ++i) operands->weights.push_back(random_bytes(w.bytes(), stream));
  const auto n_x = static_cast<size_t>(n_tokens * w.cols);
  const auto n_out = static_cast<size_t>(n_tokens * w.rows);
  operands->x = DeviceBuffer<float>(n_x, "x");
  const std::vector<float> ones(n_x, 1.0f);
  copy_to_device<float>(ones, operands->x.data(), stream);
  operands->out = DeviceBuffer<float>(n_out, "out");
  operands->residual = DeviceBuffer<float>(n_out, "residual");
  operands->sum = DeviceBuffer<float>(n_out, "sum");
  set_bytes(operands->residual.data(), n_out, 0, stream);
  stream.synchronize();
  return operands;
}

enum class Form { kStore, kAdd, kGated, kThree };

struct Shape {
  const char* name;
  Form form;
  int64_t rows, cols;  ///< of all products together
};

void run(const Shape& shape, bool mfma, WeightType type, int64_t n_tokens, Operands& operands,
         Stream& stream) {
  const Matrix w{type, operands.next(), shape.rows, shape.cols};
  float* const out = operands.out.data();
  const auto part = [&](int64_t first, int64_t rows) {
    const Matrix result{type, w.data + static_cast<size_t>(first) * w.row_bytes(), rows, w.cols};
    return Product{result, out + n_tokens * first};
  };
  switch (shape.form) {
    case Form::kStore: {
      const Product product = part(0, shape.rows);
      if (mfma) return token_matmul_mfma({.x = operands.x.data()}, {&product, 1}, stream);
      return matmul_valu(operands.x.data(), n_tokens, {&product, 1}, stream);
    }
    case Form::kAdd:
      if (mfma) {
        return token_matmul_add_mfma(operands.x.data(), part(0, shape.rows),
                                     operands.residual.data(), operands.sum.data(), stream);
      }
      return matmul_add_valu(operands.x.data(), n_tokens, part(0, shape.rows),
                             operands.residual.data(), operands.sum.data(), stream);
    case Form::kGated: {
      const int64_t half = shape.rows / 2;
      if (mfma) {
        return token_gated_matmul_mfma({.x = operands.x.data()}, part(0, half).w,
                                       part(half, half).w, out, stream);
      }
      return gated_matmul_valu(operands.x.data(), n_tokens, part(0, half).w, part(half, half).w,
                               out, stream);
    }
    case Form::kThree: {
      const Product products[] = {part(0, kDim), part(kDim, kKv), part(kDim + kKv, kKv)};
      if (mfma) return token_matmul_mfma({.x = operands.x.data()}, products, stream);
      return matmul_valu(operands.x.data(), n_tokens, products, stream);
    }
  }
}

BenchCase make_case(const Shape& shape, bool mfma, WeightType type, int64_t n_tokens) {
  const Matrix w{type, nullptr, shape.rows, shape.cols};
  BenchCase result;
  result.name = (mfma ? "mfma-token " : "valu ") + std::string(weight_type_info(type).name) + " " +
                shape.name + " " + std::to_string(shape.rows) + "x" + std::to_string(shape.cols) +
                " n" + std::to_string(n_tokens);
  result.bytes = static_cast<double>(w.bytes()) +
                 4.0 * static_cast<double>(n_tokens * (shape.rows + shape.cols));
  result.flops = 2.0 * static_cast<double>(n_tokens * shape.rows * shape.cols);
  // Memory is taken when the case runs first, and given back with it.
  result.run = [shape, mfma, type, n_tokens, w,
                operands = std::shared_ptr<Operands>()](Stream& stream) mutable {
    if (!operands) operands = make_operands(w, n_tokens);
    run(shape, mfma, type, n_tokens, *operands, stream);
  };
  return result;
}

/// What prefill on matrix cores does to weights that are not 16-bit floats.
BenchCase make_halves_case(WeightType type, int64_t rows, int64_t cols) {
  const Matrix w{type, nullptr, rows, cols};
  BenchCase result;
  result.name = "to_halves " + std::string(weight_type_info(type).name) + " " +
                std::to_string(rows) + "x" + std::to_string(cols);
  result.bytes = static_cast<double>(w.bytes()) + 2.0 * static_cast<double>(rows * cols);
  result.run = [w, operands = std::shared_ptr<Operands>()](Stream& stream) mutable {
    // Halves of all weights need as much room as the results of so many tokens.
    if (!operands) operands = make_operands(w, (w.cols + 1) / 2);
    const Matrix matrix{w.type, operands->next(), w.rows, w.cols};
    to_halves(matrix, 0, w.rows, HalfType::kF16, reinterpret_cast<uint16_t*>(operands->out.data()),
              stream);
  };
  return result;
}

}  // namespace

std::vector<BenchCase> matmul_valu_cases() {
  const Shape shapes[] = {{"qkv", Form::kThree, kDim + 2 * kKv, kDim},
                          {"wo+add", Form::kAdd, kDim, kDim},
                          {"gated", Form::kGated, 2 * kHidden, kDim},
                          {"down+add", Form::kAdd, kDim, kHidden},
                          {"lm_head", Form::kStore, kVocabulary, kDim}};
  std::vector<BenchCase> cases;
  for (const WeightTypeInfo& info : kWeightTypes) {
    for (const Shape& shape : shapes) {
      if (info.type == WeightType::kF32) continue;
      cases.push_back(make_case(shape, false, info.type, 1));
      cases.push_back(make_case(shape, true, info.type, 1));
    }
    cases.push_back(make_case(shapes[2], false, info.type, 16));
  }
  for (WeightType type : {WeightType::kQ8_0, WeightType::kQ4_K, WeightType::kQ6_K}) {
    cases.push_back(make_halves_case(type, 2 * kHidden, kDim));
  }
  return cases;
}

}  // namespace greta
