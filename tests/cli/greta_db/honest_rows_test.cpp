// Rows as engines print them: rounded to their dtype, summed in some order, with few digits or
// many.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "kernels/fingerprint/fingerprint.h"
#include "tests/cli/program.h"
#include "tests/queries/harm/random_run.h"

namespace greta {
namespace {

using harm::Random;

enum class Dtype { kF32, kBf16, kF16 };

constexpr const char* kDtypes[] = {"f32", "bf16", "f16"};

/// To as many bits as the dtype keeps; what f16 cannot hold is infinite.
double rounded(double value, Dtype dtype) {
  const auto f = static_cast<float>(value);
  if (dtype == Dtype::kF32) return f;
  const int bits = dtype == Dtype::kBf16 ? 8 : 11;
  int exponent = 0;
  const double significand = std::frexp(f, &exponent);
  const double nearest = std::ldexp(std::nearbyint(std::ldexp(significand, bits)), exponent - bits);
  return dtype == Dtype::kF16 && std::fabs(nearest) > 65'504 ? std::copysign(INFINITY, nearest)
                                                             : nearest;
}

/// Near to a normal distribution.
double bell(Random& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += static_cast<double>(random.below(1u << 20)) / (1u << 20);
  return sum;
}

std::vector<float> honest_values(Random& random, Dtype dtype) {
  const size_t n = random.of(std::vector<size_t>{1, 2, 3, 7, 32, 33, 100, 256, 257, 700});
  const double scale = random.of(std::vector<double>{1e-6, 0.01, 1, 30});
  const size_t kind = random.below(7);
  std::vector<double> v(n);
  for (double& x : v) x = scale * bell(random);
  if (kind == 1) {  // relu
    for (double& x : v) x = std::max(0.0, x);
  } else if (kind == 2) {  // probabilities
    double sum = 0;
    for (double& x : v) sum += x = std::exp(2 * bell(random));
    for (double& x : v) x /= sum;
  } else if (kind == 3) {
    std::fill(v.begin(), v.end(), v[0]);
  } else if (kind == 4) {
    v[random.below(n)] = random.one_in(2) ? 30'000 : -3'000;
  } else if (kind == 5) {
    std::fill(v.begin(), v.end(), 0.0);
    if (random.one_in(2)) v[random.below(n)] = 1;
  } else if (kind == 6) {
    for (double& x : v) x += 1'000;
  }
  std::vector<float> row;
  for (const double x : v) row.push_back(static_cast<float>(rounded(x, dtype)));
  return row;
}

/// As an engine prints its numbers.
class Printer {
 public:
  explicit Printer(Random& random)
      : digits_(static_cast<int>(4 + random.below(14))), style_("gfe"[random.below(3)]) {}
  std::string operator()(double value) const {
    char text[400];
    const char format[] = {'%', '.', '*', style_, 0};
    std::snprintf(text, sizeof text, format, style_ == 'e' ? digits_ - 1 : digits_, value);
    return text;
  }
  template <class Values>
  std::string list(const Values& values) const {
    std::string text;
    for (const double x : values) text += (text.empty() ? "" : ",") + (*this)(x);
    return "[" + text + "]";
  }

 private:
  int digits_;
  char style_;
};

/// In f32 or in double, in order or shuffled.
double sum_of(std::vector<double> values, Random& random) {
  if (random.one_in(2)) {
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random.below(i)]);
  }
  const bool in_double = random.one_in(3);
  double sum = 0;
  for (const double x : values) sum = in_double ? sum + x : static_cast<float>(sum + x);
  return sum;
}

std::string honest_row(const std::vector<float>& row, Dtype dtype, const std::string& place,
                       Random& random) {
  const Fingerprint f = fingerprint(row);
  const Printer print(random);
  std::vector<double> values(row.begin(), row.end()), sizes, squares;
  for (const double x : values) {
    sizes.push_back(std::fabs(x));
    squares.push_back(x * x);
  }
  const Dtype kept_in = random.one_in(2) ? dtype : Dtype::kF32;
  const double abs_sum = rounded(sum_of(sizes, random), kept_in);
  std::string text = place + R"(,"n":)" + std::to_string(f.n) + R"(,"hash":)" +
                     std::to_string(f.hash) + R"(,"min":)" + print(f.min) + R"(,"max":)" +
                     print(f.max) + R"(,"mean":)" +
                     print(rounded(sum_of(values, random) / static_cast<double>(f.n), kept_in)) +
                     R"(,"abs_sum":)" + (std::isfinite(abs_sum) ? print(abs_sum) : "Infinity") +
                     R"(,"nan":0,"inf":0,"nz_count":)" + std::to_string(f.nz_count);
  if (random.one_in(2)) {
    text +=
        R"(,"sum_sq":)" + print(sum_of(squares, random)) + R"(,"sketch":)" + print.list(f.sketch);
  }
  if (random.one_in(2)) {
    values.resize(std::min<size_t>(values.size(), 16));
    text += R"(,"sample":)" + print.list(values);
  }
  return text + "}\n";
}

struct HonestRows : ProgramTest {};

TEST_F(HonestRows, AreTakenAndContradictNothing) {
  constexpr int kPairsOfADtype = 1'700;
  Random random(36);
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBf16, Dtype::kF16}) {
    const std::string name = kDtypes[static_cast<int>(dtype)];
    std::string text = R"({"event":"run_start","format":"greta-rows-1","experiment":"e","run":")" +
                       name + R"(","dtype":")" + name + "\"}\n";
    for (int i = 0; i < kPairsOfADtype; ++i) {
      const std::vector<float> row = honest_values(random, dtype);
      for (const char* phase : {"prefill_last", "decode0"}) {
        text +=
            honest_row(row, dtype,
                       R"({"event":"row","layer":0,"tensor":"attn_out","pos_id":3,"prompt":"p)" +
                           std::to_string(i) + R"(","phase":")" + phase + "\"",
                       random);
      }
    }
    write("rows", text + R"({"event":"run_end","status":"complete","rows":)" +
                      std::to_string(2 * kPairsOfADtype) + "}\n");
    EXPECT_EQ(shell("$G ingest -q - <rows").status, 0);
    EXPECT_EQ(run({"gate", "--run", name}).status, 0);
  }
  EXPECT_EQ(shell("$G query ingest_errors --format tsv | tail -n +2").out, "");
  EXPECT_EQ(shell("sqlite3 greta.db \"SELECT DISTINCT status FROM pair\"").out, "MATCH\n");
}

}  // namespace
}  // namespace greta
