#include "kernels/cpu/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <stdexcept>
#include <vector>

#include "kernels/cpu/quantise.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/kernels/kernel_fixture.h"

namespace greta {
namespace {

constexpr double kRowTolerance = 1.5e-7;

class RmsNorm : public IsaTest {};
class RopeTurn : public IsaTest {};
class Swiglu : public IsaTest {};
class Add : public IsaTest {};
GRETA_EVERY_ISA(RmsNorm);
GRETA_EVERY_ISA(RopeTurn);
GRETA_EVERY_ISA(Swiglu);
GRETA_EVERY_ISA(Add);

// ---- RMS norm.

Values norm(Isa isa, const Values& x, const Values& weight, float eps, int n_threads = 1) {
  ThreadPool pool(n_threads);
  const auto dim = static_cast<int64_t>(weight.size());
  Values out(x.size());
  rms_norm(x.data(), weight.data(), eps, static_cast<int64_t>(x.size()) / dim, dim, out.data(),
           pool, isa);
  return out;
}

TEST_P(RmsNorm, AgreesWithDouble) {
  for (int64_t dim : {1, 3, 15, 16, 17, 64, 100, 257, 2048, 14336}) {
    for (float eps : {0.0f, 1e-5f, 1.0f}) {
      const Values x = bell_values(static_cast<uint32_t>(dim), 3 * dim, 0.01);
      const Values weight = bell_values(7, dim);
      std::vector<double> expected;
      for (int64_t t = 0; t < 3; ++t) {
        double sum = 0;
        for (int64_t k = 0; k < dim; ++k) {
          sum += std::pow(static_cast<double>(x[static_cast<size_t>(t * dim + k)]), 2);
        }
        const double rms = std::sqrt(sum / static_cast<double>(dim) + static_cast<double>(eps));
        for (int64_t k = 0; k < dim; ++k) {
          expected.push_back(static_cast<double>(x[static_cast<size_t>(t * dim + k)]) / rms *
                             static_cast<double>(weight[static_cast<size_t>(k)]));
        }
      }
      EXPECT_LE(rel_l2(norm(GetParam(), x, weight, eps), expected), kRowTolerance)
          << dim << " " << eps;
    }
  }
}

TEST_P(RmsNorm, RowDependsOnItselfOnly) {
  const Values x = bell_values(3, 17 * 77);
  const Values weight = bell_values(4, 77);
  const Values together = norm(GetParam(), x, weight, 1e-5f, 3);
  for (int64_t t = 0; t < 17; ++t) {
    EXPECT_TRUE(same_bits(norm(GetParam(), slice(x, t * 77, 77), weight, 1e-5f),
                          slice(together, t * 77, 77)));
  }
}

TEST_P(RmsNorm, InPlaceGivesTheSameBits) {
  Values x = bell_values(3, 5 * 33);
  const Values weight = bell_values(4, 33);
  const Values expected = norm(GetParam(), x, weight, 1e-5f);
  ThreadPool pool(2);
  rms_norm(x.data(), weight.data(), 1e-5f, 5, 33, x.data(), pool, GetParam());
  EXPECT_TRUE(same_bits(x, expected));
}

TEST_P(RmsNorm, EpsilonKeepsZeroRowsFinite) {
  EXPECT_EQ(norm(GetParam(), Values(40, 0.0f), Values(40, 1.0f), 1e-5f), Values(40, 0.0f));
  for (float value : norm(GetParam(), Values(40, 0.0f), Values(40, 1.0f), 0.0f)) {
    EXPECT_TRUE(std::isnan(value));
  }
}

TEST_P(RmsNorm, NanAnywhereFillsItsRowOnly) {
  for (size_t at : {size_t{0}, size_t{15}, size_t{16}, size_t{36}}) {
    Values x = bell_values(3, 2 * 37);
    x[at] = kNan;
    const Values out = norm(GetParam(), x, Values(37, 1.0f), 1e-5f);
    for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(std::isnan(out[i]), i < 37) << at;
  }
}

// ---- RoPE.

struct Rope {
  RopePairing pairing;
  int64_t n_tokens, n_heads, head_dim, rope_dim, first_pos;
  double magnitude = 1;
};

std::vector<double> frequencies(int64_t rope_dim) {
  std::vector<double> inv_freq;
  for (int64_t i = 0; i < rope_dim / 2; ++i) {
    inv_freq.push_back(
        std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(rope_dim)));
  }
  return inv_freq;
}

Values rotate(Isa isa, const Rope& r, const Values& in, int n_threads = 1) {
  ThreadPool pool(n_threads);
  Values out(in.size(), 12345.0f);
  const std::vector<double> inv_freq = frequencies(r.rope_dim);
  rope({in.data(), r.n_heads, out.data()}, r.first_pos, {inv_freq, r.magnitude, r.pairing},
       r.n_tokens, r.head_dim, pool, isa);
  return out;
}

std::vector<double> rotate_in_double(const Rope& r, const Values& in) {
  const std::vector<double> inv_freq = frequencies(r.rope_dim);
  std::vector<double> out(in.begin(), in.end());
  for (int64_t t = 0; t < r.n_tokens; ++t) {
    for (int64_t h = 0; h < r.n_heads; ++h) {
      for (int64_t i = 0; i < r.rope_dim / 2; ++i) {
        const bool halves = r.pairing == RopePairing::kHalves;
        const int64_t head = (t * r.n_heads + h) * r.head_dim;
        const auto a = static_cast<size_t>(head + (halves ? i : 2 * i));
        const auto b = static_cast<size_t>(head + (halves ? i + r.rope_dim / 2 : 2 * i + 1));
        const double angle =
            static_cast<double>(r.first_pos + t) * inv_freq[static_cast<size_t>(i)];
        const double x = static_cast<double>(in[a]), y = static_cast<double>(in[b]);
        out[a] = r.magnitude * (x * std::cos(angle) - y * std::sin(angle));
        out[b] = r.magnitude * (x * std::sin(angle) + y * std::cos(angle));
      }
    }
  }
  return out;
}

std::vector<Rope> rope_shapes() {
  std::vector<Rope> shapes;
  for (RopePairing pairing : {RopePairing::kInterleaved, RopePairing::kHalves}) {
    for (int64_t first_pos : {0, 5, 131071}) {
      shapes.push_back({pairing, 1, 1, 2, 2, first_pos});
      shapes.push_back({pairing, 3, 5, 40, 40, first_pos});
      shapes.push_back({pairing, 17, 4, 64, 64, first_pos});
      shapes.push_back({pairing, 2, 2, 128, 96, first_pos});
      shapes.push_back({pairing, 2, 3, 35, 22, first_pos});
      shapes.push_back({pairing, 3, 2, 64, 48, first_pos, 1.1386});
    }
  }
  return shapes;
}

TEST_P(RopeTurn, AgreesWithDouble) {
  for (const Rope& r : rope_shapes()) {
    const Values in = bell_values(11, r.n_tokens * r.n_heads * r.head_dim);
    EXPECT_LE(rel_l2(rotate(GetParam(), r, in), rotate_in_double(r, in)), kRowTolerance)
        << r.head_dim << " at " << r.first_pos;
  }
}

TEST_P(RopeTurn, PositionZeroTurnsNothing) {
  for (Rope r : rope_shapes()) {
    r.n_tokens = 1;
    r.first_pos = 0;
    r.magnitude = 1;
    const Values in = bell_values(11, r.n_heads * r.head_dim);
    EXPECT_TRUE(same_bits(rotate(GetParam(), r, in), in));
  }
}

TEST_P(RopeTurn, ValuesBeyondRopeDimAreCopied) {
  for (RopePairing pairing : {RopePairing::kInterleaved, RopePairing::kHalves}) {
    const Rope r{pairing, 3, 2, 50, 30, 9};
    Values in = bell_values(5, 3 * 2 * 50);
    in[49] = kNan;
    const Values out = rotate(GetParam(), r, in);
    for (int64_t head = 0; head < 6; ++head) {
      const int64_t begin = head * 50 + 30;
      EXPECT_TRUE(same_bits(slice(out, begin, 20), slice(in, begin, 20)));
    }
  }
}

TEST_P(RopeTurn, TokenDependsOnItsPositionOnly) {
  for (const Rope& r : rope_shapes()) {
    const int64_t width = r.n_heads * r.head_dim;
    const Values in = bell_values(11, r.n_tokens * width);
    const Values together = rotate(GetParam(), r, in, 3);
    for (int64_t t = 0; t < r.n_tokens; ++t) {
      Rope single = r;
      single.n_tokens = 1;
      single.first_pos += t;
      EXPECT_TRUE(same_bits(rotate(GetParam(), single, slice(in, t * width, width)),
                            slice(together, t * width, width)));
    }
  }
}

TEST_P(RopeTurn, RotationsLongerThanAHeadAreRefused) {
  const Rope r{RopePairing::kHalves, 1, 1, 16, 18, 0};
  EXPECT_THROW(rotate(GetParam(), r, Values(16, 1.0f)), std::invalid_argument);
}

TEST_P(RopeTurn, InPlaceGivesTheSameBits) {
  for (const Rope& r : rope_shapes()) {
    Values values = bell_values(11, r.n_tokens * r.n_heads * r.head_dim);
    const Values expected = rotate(GetParam(), r, values);
    ThreadPool pool(2);
    const std::vector<double> inv_freq = frequencies(r.rope_dim);
    rope({values.data(), r.n_heads, values.data()}, r.first_pos, {inv_freq, r.magnitude, r.pairing},
         r.n_tokens, r.head_dim, pool, GetParam());
    EXPECT_TRUE(same_bits(values, expected));
  }
}

// ---- Heads after their product.

class FinishHeads : public IsaTest {};
GRETA_EVERY_ISA(FinishHeads);

TEST_P(FinishHeads, AddsTheBiasThenNormsEachHeadByItself) {
  const int64_t n_tokens = 3, n_heads = 2;
  for (const int64_t head_dim : {1, 16, 40, 128}) {
    const int64_t width = n_heads * head_dim;
    const Values rows = bell_values(1, n_tokens * width), bias = bell_values(2, width);
    const Values weight = bell_values(3, head_dim);
    for (const auto& [has_bias, has_norm] : {std::pair(true, true), {true, false}, {false, true}}) {
      Values got = rows;
      ThreadPool pool(2);
      finish_heads({got.data(), n_heads, has_bias ? bias.data() : nullptr,
                    has_norm ? weight.data() : nullptr},
                   n_tokens, head_dim, 1e-6f, pool, GetParam());
      std::vector<double> expected(rows.begin(), rows.end());
      for (size_t head = 0; head < static_cast<size_t>(n_tokens * n_heads); ++head) {
        const auto dim = static_cast<size_t>(head_dim);
        double* const x = expected.data() + head * dim;
        double sum_sq = 0;
        for (size_t d = 0; d < dim; ++d) {
          if (has_bias) x[d] += static_cast<double>(bias[head % 2 * dim + d]);
          sum_sq += x[d] * x[d];
        }
        const double rms = std::sqrt(sum_sq / static_cast<double>(dim) + 1e-6);
        for (size_t d = 0; has_norm && d < dim; ++d) x[d] *= static_cast<double>(weight[d]) / rms;
      }
      EXPECT_LE(rel_l2(got, expected), kRowTolerance) << head_dim;
    }
  }
}

TEST_P(FinishHeads, AHeadDependsOnItselfOnly) {
  const int64_t n_tokens = 5, head_dim = 40;
  const Values rows = bell_values(1, n_tokens * 2 * head_dim);
  const Values bias = bell_values(2, 2 * head_dim), weight = bell_values(3, head_dim);
  Values together = rows;
  ThreadPool pool(3);
  finish_heads({together.data(), 2, bias.data(), weight.data()}, n_tokens, head_dim, 1e-6f, pool,
               GetParam());
  for (int64_t t = 0; t < n_tokens; ++t) {
    Values alone = slice(rows, t * 2 * head_dim, 2 * head_dim);
    finish_heads({alone.data(), 2, bias.data(), weight.data()}, 1, head_dim, 1e-6f, pool,
                 GetParam());
    EXPECT_TRUE(same_bits(alone, slice(together, t * 2 * head_dim, 2 * head_dim)));
  }
}

// ---- SwiGLU and sums.

Values gated(Isa isa, const Values& gate, const Values& up, int n_threads = 1) {
  ThreadPool pool(n_threads);
  Values out(gate.size());
  swiglu(gate.data(), up.data(), static_cast<int64_t>(gate.size()), out.data(), pool, isa);
  return out;
}

TEST_P(Swiglu, AgreesWithDoubleValueByValue) {
  const int64_t n = 40001;
  Values gate(n), up = bell_values(2, n);
  for (size_t i = 0; i < gate.size(); ++i) gate[i] = (static_cast<float>(i) - 20000) * 0.00437f;
  const Values out = gated(GetParam(), gate, up);
  for (size_t i = 0; i < gate.size(); ++i) {
    const double g = static_cast<double>(gate[i]);
    const double expected = g / (1 + std::exp(-g)) * static_cast<double>(up[i]);
    EXPECT_NEAR(static_cast<double>(out[i]), expected, std::fabs(expected) * 4e-7 + 1e-36) << g;
  }
}

TEST_P(Swiglu, ExtremesFollowTheFormula) {
  const Values out =
      gated(GetParam(), {100.0f, -100.0f, 1e30f, -1e30f, kInf, 0.0f, kNan, -kInf}, Values(8, 1));
  EXPECT_EQ(out[0], 100.0f);
  EXPECT_EQ(out[1], 0.0f);
  EXPECT_EQ(out[2], 1e30f);
  EXPECT_EQ(out[3], 0.0f);
  EXPECT_EQ(out[4], kInf);
  EXPECT_EQ(out[5], 0.0f);
  EXPECT_TRUE(std::isnan(out[6]));
  EXPECT_TRUE(std::isnan(out[7]));  // −∞ / ∞
}

TEST_P(Swiglu, ValueDoesNotDependOnItsPlace) {
  const Values gate = bell_values(1, 5000), up = bell_values(2, 5000);
  const Values together = gated(GetParam(), gate, up, 3);
  for (int64_t begin : {0, 1, 15, 16, 17, 4095, 4097}) {
    for (int64_t n : {1, 7, 16, 33}) {
      EXPECT_TRUE(same_bits(gated(GetParam(), slice(gate, begin, n), slice(up, begin, n)),
                            slice(together, begin, n)));
    }
  }
}

TEST_P(Swiglu, OutputMayBeTheGate) {
  Values gate = bell_values(1, 777);
  const Values up = bell_values(2, 777), expected = gated(GetParam(), gate, up);
  ThreadPool pool(2);
  swiglu(gate.data(), up.data(), 777, gate.data(), pool, GetParam());
  EXPECT_TRUE(same_bits(gate, expected));
}

TEST_P(Add, IsTheSumAndMayOverwriteEither) {
  for (int64_t n : {0, 1, 15, 16, 17, 1000, 70001}) {
    const Values a = bell_values(1, n), b = bell_values(2, n);
    Values expected(a.size());
    for (size_t i = 0; i < a.size(); ++i) expected[i] = a[i] + b[i];
    ThreadPool pool(2);
    Values first = a, second = b;
    add(first.data(), b.data(), n, first.data(), pool, GetParam());
    add(a.data(), second.data(), n, second.data(), pool, GetParam());
    EXPECT_TRUE(same_bits(first, expected));
    EXPECT_TRUE(same_bits(second, expected));
  }
}

// ---- Embedding.

TEST(Embed, CopiesTheRowsOfTheIdsInEveryStorageType) {
  const int64_t rows = 9, cols = 512;
  const std::vector<int32_t> ids = {8, 0, 3, 3, 1, 8};
  for (const WeightTypeInfo& info : kWeightTypes) {
    const Values values = bell_values(6, rows * cols);
    Matrix table{info.type, nullptr, rows, cols};
    std::vector<std::byte> data(table.bytes());
    quantise(info.type, values, data);
    table.data = data.data();
    Values expected;
    for (int32_t id : ids) {
      Values row(static_cast<size_t>(cols));
      dequantise(
          info.type,
          std::span(data).subspan(static_cast<size_t>(id) * table.row_bytes(), table.row_bytes()),
          row);
      expected.insert(expected.end(), row.begin(), row.end());
    }
    for (int n_threads : {1, 3}) {
      ThreadPool pool(n_threads);
      Values out(ids.size() * static_cast<size_t>(cols), kNan);
      embed(table, ids.data(), static_cast<int64_t>(ids.size()), out.data(), pool);
      EXPECT_TRUE(same_bits(out, expected)) << info.name;
    }
  }
}

}  // namespace
}  // namespace greta
