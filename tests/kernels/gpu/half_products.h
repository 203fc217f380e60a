#pragma once

#include <cstdint>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/blocks.h"
#include "kernels/fingerprint/fingerprint.h"
#include "kernels/gpu/matmul_mfma.h"
#include "tests/kernels/gpu/gpu_test.h"

// Products of 16-bit floats on the host, to compare those of the GPU with.

namespace greta {

inline constexpr HalfType kHalfTypes[] = {HalfType::kF16, HalfType::kBF16};

using Halves = std::vector<uint16_t>;

inline uint16_t to_half(HalfType type, float value) {
  return type == HalfType::kF16 ? f32_to_f16(value) : f32_to_bf16(value);
}
inline double half_value(HalfType type, uint16_t half) {
  return static_cast<double>(type == HalfType::kF16 ? f16_to_f32(half) : bf16_to_f32(half));
}
inline Halves to_halves(HalfType type, const std::vector<float>& values) {
  Halves halves;
  for (float value : values) halves.push_back(to_half(type, value));
  return halves;
}

/// A product on the host. Results lie `rows` apart, if stride does not say otherwise.
struct HostProduct {
  HalfType type = HalfType::kF16;
  int64_t n_tokens = 0, rows = 0, cols = 0;
  Halves x, w;

  /// Integers from −8 to 8: sums of up to 2¹⁸ products are exact.
  static HostProduct of_integers(HalfType type, int64_t n_tokens, int64_t rows, int64_t cols) {
    const auto integers = [&](uint64_t seed, int64_t n) {
      std::vector<float> values(static_cast<size_t>(n));
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(mix64(seed << 32 | i) % 17) - 8.0f;
      }
      return to_halves(type, values);
    };
    return {type, n_tokens, rows, cols, integers(1, n_tokens * cols), integers(2, rows * cols)};
  }
  static HostProduct of_bells(HalfType type, int64_t n_tokens, int64_t rows, int64_t cols) {
    const auto bells = [&](uint32_t seed, int64_t n, double sigma) {
      return to_halves(type, bell_values(seed, static_cast<size_t>(n), sigma));
    };
    return {type, n_tokens, rows, cols, bells(1, n_tokens * cols, 1), bells(2, rows * cols, 0.02)};
  }

  /// Result of a token and a row, and the sum of the magnitudes, which bounds what rounding can do.
  struct Exact {
    double sum = 0, magnitude = 0;
  };
  /// Of every token, row by row.
  std::vector<Exact> exact() const {
    const std::vector<double> tokens = values(x), weights = values(w);
    std::vector<Exact> results;
    for (int64_t i = 0; i < n_tokens * rows; ++i) {
      const double* token = tokens.data() + i / rows * cols;
      const double* row = weights.data() + i % rows * cols;
      double sum = 0, magnitude = 0;
      for (int64_t k = 0; k < cols; ++k) {
        const double product = token[k] * row[k];
        sum += product;
        magnitude += std::fabs(product);
      }
      results.push_back({sum, magnitude});
    }
    return results;
  }

  /// How far a result may be from the exact one. Sixteen products are added to a sum at a time, one
  /// by one with a rounding each, or together and then cut off; either loses less than 2⁻²⁰ of the
  /// magnitudes.
  double tolerance(const Exact& result) const {
    return result.magnitude * static_cast<double>((cols + 15) / 16) * 0x1p-20;
  }

  void expect_exactly(const std::vector<float>& got) const {
    const std::vector<Exact> wanted = exact();
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(static_cast<double>(got[i]), wanted[i].sum) << place(i);
  }
  void expect_nearly(const std::vector<float>& got) const {
    const std::vector<Exact> wanted = exact();
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(static_cast<double>(got[i]), wanted[i].sum, tolerance(wanted[i])) << place(i);
    }
  }

  friend std::ostream& operator<<(std::ostream& out, const HostProduct& product) {
    return out << product.n_tokens << " tokens, " << product.rows << " rows, " << product.cols
               << " columns, " << (product.type == HalfType::kF16 ? "f16" : "bf16");
  }

 private:
  std::vector<double> values(const Halves& halves) const {
    std::vector<double> values;
    for (const uint16_t half : halves) values.push_back(half_value(type, half));
    return values;
  }
  std::string place(size_t i) const {
    const auto at = static_cast<int64_t>(i);
    std::ostringstream text;
    text << "token " << at / rows << ", row " << at % rows << " of " << *this;
    return text.str();
  }
};

/// Tests of things that compute half products.
class HalfProductTest : public GpuTest {
 protected:
  /// multiply(product) queues it.
  template <class Multiply>
  std::vector<float> run(const HostProduct& host, Multiply multiply) {
    const auto x = upload(host.x);
    const auto w = upload(host.w);
    auto out = buffer<float>(static_cast<size_t>(host.n_tokens * host.rows));
    multiply(HalfProduct{host.type, x.data(), w.data(), host.n_tokens, host.rows, host.cols,
                         out.data(), host.rows});
    return download(out);
  }
};

}  // namespace greta
