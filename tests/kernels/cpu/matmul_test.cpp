#include "kernels/cpu/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/cpu/quantise.h"
#include "tests/kernels/kernel_fixture.h"
#include "tests/kernels/random_blocks.h"

namespace greta {
namespace {

// Errors allowed against double, relative to the size that the sum of an output's products would
// have with random signs: f32 rounds to 2^−24 = 6e−8.
constexpr double kProductTolerance = 2.5e-7;  // of many outputs together
constexpr double kToleranceOfOne = 2.5e-6;
constexpr size_t kMany = 100;

using Product = void (*)(const Matrix&, const float*, int64_t, float*, ThreadPool&, Isa);
struct NamedProduct {
  const char* name;
  Product product;
};
constexpr NamedProduct kRoutes[] = {{"dot", matmul_dot}, {"gemm", matmul_gemm}};

// Random weights as stored, exactly as long as they must be, `offset` bytes past an aligned
// address.
struct Weights {
  std::vector<std::byte> bytes;
  size_t offset = 0;
  Matrix matrix;

  Weights(WeightType type, int64_t rows, int64_t cols, uint32_t seed = 1, size_t at_offset = 0)
      : offset(at_offset), matrix{type, nullptr, rows, cols} {
    bytes.resize(offset + matrix.bytes());
    matrix.data = bytes.data() + offset;
    quantise(type, bell_values(seed, rows * cols), stored());
  }
  // A copy would still point to the bytes of the original.
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  std::span<std::byte> stored() { return std::span(bytes).subspan(offset); }

  Values expanded() const {
    Values values(static_cast<size_t>(matrix.rows * matrix.cols));
    dequantise(matrix.type, std::span(bytes).subspan(offset), values);
    return values;
  }
};

Values multiply(Product product, const Matrix& w, const Values& x, int64_t n_tokens, Isa isa,
                int n_threads = 2) {
  ThreadPool pool(n_threads);
  Values out(static_cast<size_t>(n_tokens * w.rows), kNan);
  product(w, x.data(), n_tokens, out.data(), pool, isa);
  return out;
}

Expected multiply_in_double(const Weights& w, const Values& x, int64_t n_tokens) {
  return greta::multiply_in_double(w.expanded(), w.matrix.rows, x, n_tokens);
}

// True if actual agrees with the first values of expected.
testing::AssertionResult agrees(const Values& actual, const Expected& expected) {
  double error_square = 0, square = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double error = std::fabs(static_cast<double>(actual[i]) - expected.value.at(i));
    if (!(error <= kToleranceOfOne * std::sqrt(expected.square[i]))) {
      return testing::AssertionFailure()
             << "value " << i << " is " << actual[i] << ", not " << expected.value[i];
    }
    error_square += error * error;
    square += expected.square[i];
  }
  const double error = std::sqrt(error_square / square);
  if (actual.size() >= kMany && !(error <= kProductTolerance)) {
    return testing::AssertionFailure() << "relative error " << error;
  }
  return testing::AssertionSuccess();
}

// One block; several; more than are summed in one chain; for 32-value blocks also what does not
// fill a span, for the float types what does not fill a vector.
std::vector<int64_t> column_counts(WeightType type) {
  switch (weight_type_info(type).block_values) {
    case 1:
      return {1, 2, 15, 63, 64, 67, 255, 257, 1031, 2048};
    case 32:
      return {32, 96, 256, 288, 1056, 2048, 2272};
    default:
      return {256, 768, 2048, 2304, 4352};
  }
}

std::string type_name(WeightType type) { return std::string(weight_type_info(type).name); }

class EveryTypeAndIsa : public testing::TestWithParam<std::tuple<WeightTypeInfo, Isa>> {
 protected:
  WeightType type() const { return std::get<0>(GetParam()).type; }
  Isa isa() const { return std::get<1>(GetParam()); }
};
using Matmul = EveryTypeAndIsa;
INSTANTIATE_TEST_SUITE_P(Every, Matmul,
                         testing::Combine(testing::ValuesIn(kWeightTypes),
                                          testing::ValuesIn(instruction_sets())),
                         [](const auto& test) {
                           return type_name(std::get<0>(test.param).type) + "_" +
                                  isa_name(std::get<1>(test.param));
                         });

TEST_P(Matmul, AgreesWithDoubleAtOddSizes) {
  for (const int64_t cols : column_counts(type())) {
    const Values x = bell_values(2, 128 * cols);
    for (const int64_t rows : {1, 3, 17}) {
      const Weights w(type(), rows, cols);
      const Expected expected = multiply_in_double(w, x, 128);
      for (const int64_t n_tokens : {1, 2, 3, 5, 8, 17, 128}) {
        for (const NamedProduct& route : kRoutes) {
          EXPECT_TRUE(agrees(multiply(route.product, w.matrix, x, n_tokens, isa()), expected))
              << route.name << " " << rows << " × " << cols << ", " << n_tokens << " tokens";
        }
      }
    }
  }
}

// Bits that quantise() never sets: all scales and mins, and every number at every place.
TEST_P(Matmul, EveryBitPatternOfABlockIsMultiplied) {
  const auto block = static_cast<int64_t>(weight_type_info(type()).block_values);
  if (block == 1) return;
  for (const int64_t cols : {11 * block, 64 * block}) {
    Weights w(type(), 31, cols);
    w.bytes = random_blocks(type(), static_cast<size_t>(31 * cols), 17);
    w.matrix.data = w.bytes.data();
    const Values x = bell_values(18, 5 * cols);
    const Expected expected = multiply_in_double(w, x, 5);
    for (const NamedProduct& route : kRoutes) {
      EXPECT_TRUE(agrees(multiply(route.product, w.matrix, x, 5, isa()), expected))
          << route.name << " " << cols;
    }
  }
}

// One weight at a time: its place cannot be mistaken, and it has the bits of its definition.
TEST_P(Matmul, EveryColumnMeetsItsActivation) {
  const auto block = static_cast<int64_t>(weight_type_info(type()).block_values);
  const int64_t cols = block == 1 ? 37 : block;
  Weights w(type(), 3, cols);
  if (block > 1) {
    w.bytes = random_blocks(type(), static_cast<size_t>(3 * cols), 19);
    w.matrix.data = w.bytes.data();
  }
  const Values values = w.expanded();
  Values x(static_cast<size_t>(cols * cols), 0.0f);
  for (int64_t k = 0; k < cols; ++k) x[static_cast<size_t>(k * cols + k)] = 1;
  for (const NamedProduct& route : kRoutes) {
    const Values out = multiply(route.product, w.matrix, x, cols, isa());
    for (int64_t k = 0; k < cols; ++k) {
      for (int64_t r = 0; r < 3; ++r) {
        ASSERT_EQ(out[static_cast<size_t>(k * 3 + r)], values[static_cast<size_t>(r * cols + k)])
            << route.name << " " << r << " " << k;
      }
    }
  }
}

TEST_P(Matmul, AgreesWithDoubleBeyondOneGemmPass) {
  const Weights w(type(), 7, 256);
  const Values x = bell_values(3, 1030 * 256);
  const Expected expected = multiply_in_double(w, x, 1030);
  for (const NamedProduct& route : kRoutes) {
    EXPECT_TRUE(agrees(multiply(route.product, w.matrix, x, 1030, isa()), expected)) << route.name;
  }
}

TEST_P(Matmul, DotGivesATokenTheSameBitsInAnyBatch) {
  const int64_t cols = column_counts(type()).back();
  const Weights w(type(), 37, cols);
  const Values x = bell_values(4, 23 * cols);
  const Values all = multiply(matmul_dot, w.matrix, x, 23, isa());
  for (int64_t first = 0; first < 23; ++first) {
    for (const int64_t n : {1, 2, 3, 4, 7}) {
      if (first + n > 23) continue;
      const Values some = slice(x, first * cols, n * cols);
      EXPECT_TRUE(
          same_bits(multiply(matmul_dot, w.matrix, some, n, isa()), slice(all, first * 37, n * 37)))
          << n << " tokens from " << first;
    }
  }
}

TEST_P(Matmul, DotGivesManyTokensTheBitsOfEachAlone) {
  const auto block = static_cast<int64_t>(weight_type_info(type()).block_values);
  std::vector<int64_t> columns = column_counts(type());
  // Ends of chains, of steps and of vectors: where floats are summed in parts.
  for (const int64_t cols : {1024, 1056, 2080, 3104, 1089, 1023}) {
    if (cols % block == 0) columns.push_back(cols);
  }
  for (const int64_t cols : columns) {
    const Weights w(type(), 19, cols);
    const Values x = bell_values(6, 68 * cols);
    Values expected;
    for (int64_t t = 0; t < 68; ++t) {
      const Values alone = multiply(matmul_dot, w.matrix, slice(x, t * cols, cols), 1, isa());
      expected.insert(expected.end(), alone.begin(), alone.end());
    }
    for (const int64_t n : {11, 12, 16, 65, 68}) {
      EXPECT_TRUE(same_bits(multiply(matmul_dot, w.matrix, slice(x, 0, n * cols), n, isa()),
                            slice(expected, 0, n * 19)))
          << n << " tokens, " << cols << " columns";
    }
  }
}

TEST_P(Matmul, TheNumberOfThreadsChangesNoBit) {
  const Weights w(type(), 403, 1024);
  for (const int64_t n_tokens : {1, 21}) {
    const Values x = bell_values(5, n_tokens * 1024);
    for (const NamedProduct& route : kRoutes) {
      const Values one = multiply(route.product, w.matrix, x, n_tokens, isa(), 1);
      for (const int n_threads : {2, 3, 7}) {
        EXPECT_TRUE(
            same_bits(multiply(route.product, w.matrix, x, n_tokens, isa(), n_threads), one))
            << route.name << ", " << n_tokens << " tokens, " << n_threads << " threads";
      }
    }
  }
}

TEST_P(Matmul, TheRoutesSumInDifferentOrders) {
  const Weights w(type(), 40, 1024);
  const Values x = bell_values(6, 9 * 1024);
  const Values dot = multiply(matmul_dot, w.matrix, x, 9, isa());
  const Values gemm = multiply(matmul_gemm, w.matrix, x, 9, isa());
  EXPECT_FALSE(same_bits(dot, gemm));
  EXPECT_LE(rel_l2(gemm, std::vector<double>(dot.begin(), dot.end())), 2 * kProductTolerance);
}

TEST_P(Matmul, WeightsMayLieAtAnyAddress) {
  const Values x = bell_values(7, 5 * 768);
  for (const NamedProduct& route : kRoutes) {
    const Weights aligned(type(), 19, 768, 8, 0);
    const Values expected = multiply(route.product, aligned.matrix, x, 5, isa());
    for (const size_t offset : {1, 2, 3, 5}) {
      const Weights shifted(type(), 19, 768, 8, offset);
      EXPECT_TRUE(same_bits(multiply(route.product, shifted.matrix, x, 5, isa()), expected))
          << route.name << " at " << offset;
    }
  }
}

TEST_P(Matmul, ActivationsMayLieAtAnyAddress) {
  const Weights w(type(), 19, 768);
  const Values x = bell_values(15, 5 * 768);
  ThreadPool pool(2);
  for (const NamedProduct& route : kRoutes) {
    const Values expected = multiply(route.product, w.matrix, x, 5, isa());
    for (int64_t offset = 0; offset < 16; ++offset) {  // one of them is a multiple of 64 bytes
      Values shifted(static_cast<size_t>(offset), kNan);
      shifted.insert(shifted.end(), x.begin(), x.end());
      Values out(5 * 19, kNan);
      route.product(w.matrix, shifted.data() + offset, 5, out.data(), pool, isa());
      EXPECT_TRUE(same_bits(out, expected)) << route.name << " at " << offset;
    }
  }
}

// What fills up a tile of rows or a group of tokens must not reach a neighbour.
TEST_P(Matmul, ANonFiniteTokenOrRowStaysWhereItIs) {
  for (const float odd : {kNan, kInf}) {
    Weights w(type(), 9, 512);
    Values x = bell_values(9, 7 * 512);
    x[3 * 512 + 100] = odd;
    for (const NamedProduct& route : kRoutes) {
      const Values out = multiply(route.product, w.matrix, x, 7, isa());
      for (size_t i = 0; i < out.size(); ++i) {
        EXPECT_EQ(std::isfinite(out[i]), i / 9 != 3) << route.name << " token " << i / 9;
      }
    }
  }
}

TEST_P(Matmul, NoRowsNoTokensNoColumns) {
  const Weights w(type(), 3, 256);
  const Values x = bell_values(10, 4 * 256);
  for (const NamedProduct& route : kRoutes) {
    EXPECT_TRUE(multiply(route.product, w.matrix, x, 0, isa()).empty());
    Matrix matrix = w.matrix;
    matrix.rows = 0;
    EXPECT_TRUE(multiply(route.product, matrix, x, 4, isa()).empty());
    matrix = w.matrix;
    matrix.cols = 0;
    EXPECT_EQ(multiply(route.product, matrix, x, 4, isa()), Values(12, 0.0f)) << route.name;
  }
}

TEST(MatmulShapes, APartOfABlockIsRefused) {
  for (const WeightTypeInfo& info : kWeightTypes) {
    const auto block = static_cast<int64_t>(info.block_values);
    const Weights w(info.type, 1, 256);
    const Values x(512, 1.0f);
    Matrix matrix = w.matrix;
    for (const int64_t cols : {block - 1, block + 1, -block}) {
      if (cols >= 0 && cols % block == 0) continue;
      matrix.cols = cols;
      for (const NamedProduct& route : kRoutes) {
        EXPECT_THROW(multiply(route.product, matrix, x, 1, best_isa()), std::invalid_argument)
            << route.name << " " << info.name << " " << cols;
      }
    }
  }
}

// Values of a half-precision weight that a conversion can get wrong.
TEST(MatmulF16, ReadsSubnormalsAndTheGreatestNumbers) {
  const Values weights = {0x1p-24f, -0x1p-24f, 0x1.ff8p-15f, 0x1p-14f, 65504, -65504, -0.0f, 1};
  for (const WeightType type : {WeightType::kF16, WeightType::kBF16, WeightType::kF32}) {
    Weights w(type, 8, 1);
    quantise(type, weights, w.stored());
    const Values expected = w.expanded();
    if (type == WeightType::kF16) {
      ASSERT_EQ(expected, weights);
    }
    for (const Isa isa : instruction_sets()) {
      for (const NamedProduct& route : kRoutes) {
        EXPECT_EQ(multiply(route.product, w.matrix, {1.0f}, 1, isa), expected)
            << route.name << " " << type_name(type) << " " << isa_name(isa);
      }
    }
  }
}

// Scales that a f16 can hold only as a subnormal number, for every type that has one.
TEST(MatmulQuants, ReadSmallScales) {
  for (const WeightTypeInfo& info : kWeightTypes) {
    if (info.block_values == 1) continue;
    Weights w(info.type, 5, 512);
    quantise(info.type, bell_values(11, 5 * 512, info.block_values == 32 ? 0x1p-16 : 0x1p-13),
             w.stored());
    const Values x = bell_values(12, 4 * 512);
    const Expected expected = multiply_in_double(w, x, 4);
    ASSERT_GT(std::fabs(expected.value[0]), 0);
    for (const Isa isa : instruction_sets()) {
      for (const NamedProduct& route : kRoutes) {
        EXPECT_TRUE(agrees(multiply(route.product, w.matrix, x, 4, isa), expected))
            << route.name << " " << info.name << " " << isa_name(isa);
      }
    }
  }
}

TEST(MatmulIsa, TheDefaultIsTheBestThatTheProcessorHas) {
  const Weights w(WeightType::kQ4_K, 21, 512);
  const Values x = bell_values(13, 6 * 512);
  ThreadPool pool(2);
  Values out(6 * 21);
  matmul_dot(w.matrix, x.data(), 6, out.data(), pool);
  EXPECT_TRUE(same_bits(out, multiply(matmul_dot, w.matrix, x, 6, best_isa())));
  matmul_gemm(w.matrix, x.data(), 6, out.data(), pool);
  EXPECT_TRUE(same_bits(out, multiply(matmul_gemm, w.matrix, x, 6, best_isa())));
  EXPECT_EQ(isa_of(""), best_isa());
  EXPECT_EQ(isa_of("baseline"), Isa::kBaseline);
  EXPECT_THROW(isa_of("avx1"), std::invalid_argument);
}

// ---- The half-precision accumulator.

Values multiply_in_half(const Weights& w, const Values& x, int64_t n_tokens, int64_t step) {
  ThreadPool pool(2);
  Values out(static_cast<size_t>(n_tokens * w.matrix.rows), kNan);
  matmul_fp16_accumulate(w.matrix, x.data(), n_tokens, step, out.data(), pool);
  return out;
}

TEST(MatmulFp16Accumulate, SticksWhereTheHalfPrecisionUnitExceedsTheTerm) {
  Weights w(WeightType::kF32, 1, 4096);
  quantise(WeightType::kF32, Values(4096, 1.0f), w.stored());
  const Values x(4096, 1.0f);
  EXPECT_EQ(multiply_in_half(w, x, 1, 1), Values{2048.0f});  // 2048 + 1 rounds back to even
  EXPECT_EQ(multiply_in_half(w, x, 1, 2), Values{4096.0f});
  EXPECT_EQ(multiply_in_half(w, x, 1, 4096), Values{4096.0f});
}

TEST(MatmulFp16Accumulate, OverflowsWhereHalfPrecisionDoes) {
  Weights w(WeightType::kF32, 1, 700);
  quantise(WeightType::kF32, Values(700, 1.0f), w.stored());
  EXPECT_EQ(multiply_in_half(w, Values(700, 100.0f), 1, 50), Values{kInf});
}

TEST(MatmulFp16Accumulate, IsNearTheProductForEveryType) {
  for (const WeightTypeInfo& info : kWeightTypes) {
    const Weights w(info.type, 5, 512);
    const Values x = bell_values(14, 3 * 512);
    const double error = rel_l2(multiply_in_half(w, x, 3, 16), multiply_in_double(w, x, 3).value);
    EXPECT_GT(error, 1e-5) << info.name;
    EXPECT_LT(error, 5e-3) << info.name;
  }
}

TEST(MatmulFp16Accumulate, RefusesAStepThatIsNone) {
  const Weights w(WeightType::kF32, 1, 4);
  EXPECT_THROW(multiply_in_half(w, Values(4, 1.0f), 1, 0), std::invalid_argument);
}

}  // namespace
}  // namespace greta
