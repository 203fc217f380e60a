#include "kernels/fingerprint/fingerprint.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <random>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/file_bytes.h"
#include "tests/kernels/fingerprint/published_vectors.h"
#include "tests/kernels/fingerprint/rows.h"
#include "tests/kernels/kernel_fixture.h"

// The published vectors by the functions of the host, and as docs/fingerprint.md lists them.

namespace greta {
namespace {

using namespace test_rows;

TEST(Fingerprint, FastPathSlowPathAndReferenceAgreeToTheBit) {
  for (const Row& row : hostile_rows()) {
    SCOPED_TRACE(row.size());
    const FingerprintSums fast = fingerprint_sums(row);
    EXPECT_EQ(fast, sums_in_order(row, natural_order(row.size())));
    expect_reference(row, fast);
  }
}

TEST(Fingerprint, OfPiecesIsThatOfTheRow) {
  std::vector<Row> rows = hostile_rows();
  rows.push_back(make_row(50'001, dense_value));
  for (const Row& row : rows) {
    for (size_t piece : {PieceFingerprint::kPieceValues, 3 * PieceFingerprint::kPieceValues}) {
      SCOPED_TRACE(row.size());
      PieceFingerprint pieces;
      const auto for_pieces = [&](const auto& use) {
        for (size_t at = 0; at < row.size(); at += piece) {
          use(std::span(row).subspan(at, std::min(piece, row.size() - at)));
        }
      };
      for_pieces([&](std::span<const float> now) { pieces.scan(now); });
      for_pieces([&](std::span<const float> now) { pieces.add(now); });
      const Fingerprint whole = fingerprint(row), made = pieces.finish();
      EXPECT_EQ(made.hash, whole.hash);
      EXPECT_EQ(made.n, whole.n);
      EXPECT_EQ(made.abs_sum, whole.abs_sum);
      EXPECT_EQ(made.sum_sq, whole.sum_sq);
      EXPECT_EQ(made.sketch, whole.sketch);
      EXPECT_EQ(std::bit_cast<std::uint64_t>(made.mean), std::bit_cast<std::uint64_t>(whole.mean));
      EXPECT_EQ(std::bit_cast<std::uint32_t>(made.min), std::bit_cast<std::uint32_t>(whole.min));
      EXPECT_EQ(made.nan + made.inf + made.nz_count, whole.nan + whole.inf + whole.nz_count);
    }
  }
}

TEST(Fingerprint, OfPiecesThatAreNotThoseThatWereScannedIsRefused) {
  const Row row(10, 1.0f);
  PieceFingerprint longer, shorter, again;
  longer.scan(row);
  EXPECT_THROW(longer.add(Row(11, 1.0f)), std::logic_error);
  shorter.scan(row);
  EXPECT_THROW(shorter.finish(), std::logic_error);
  again.scan(row);
  again.add(row);
  EXPECT_THROW(again.scan(row), std::logic_error);
}

// Rows that mix what a tensor may hold; `kind` chooses the mixture.
float random_value(std::mt19937_64& random, int kind) {
  const std::uint64_t r = random();
  const auto bits = std::bit_cast<float>(static_cast<std::uint32_t>(r));
  const float bell = bell_value(r, 0);
  switch (kind) {
    case 0:
      return bell;
    case 1:
      return bits;
    case 2:
      return (r >> 32) % 20 == 0 ? bits : bell;
    case 3:
      return (r >> 32) % 9 == 0 ? (r % 2 == 0 ? kNan : -kInf) : bell * 1e30f;
    case 4:
      return std::ldexp(bell, static_cast<int>((r >> 32) % 230) - 140);
    case 5:
      return (r >> 32) % 3 == 0 ? 0.0f : denormal_value(r);
    case 6:
      return (r >> 32) % 3 == 0 ? -0.0f : bell * 0x1p-80f;  // to where the paths change
    case 7:
      return (r >> 32) % 2 == 0 ? denormal_value(r) : bell * 0x1p-84f;
    case 8:
      return (r >> 32) % 2 == 0 ? denormal_value(r) : bell * 0x1p-124f;
    default:
      return 0.0f;
  }
}
constexpr int kKinds = 10;

void expect_every_path_alike(std::span<const float> row) {
  FingerprintSums expected(finite_max_magnitude(row));
  for (std::size_t i = 0; i < row.size(); ++i) expected.add(i, row[i]);
  for (Isa isa : instruction_sets()) {
    EXPECT_EQ(fingerprint_sums(row, isa), expected) << isa_name(isa) << " n " << row.size();
  }
}

TEST(Fingerprint, EveryInstructionSetAgreesAtEveryLengthAndAlignment) {
  std::mt19937_64 random(11);
  std::vector<std::size_t> lengths = natural_order(301);
  lengths.insert(lengths.end(), {4095, 4096, 4097, 8205, 32000, 200003});
  for (const std::size_t n : lengths) {
    for (int kind = 0; kind < kKinds; ++kind) {
      const std::size_t offset = random() % 17;
      const Row row = make_row(n + offset, [&](std::size_t) { return random_value(random, kind); });
      SCOPED_TRACE(kind);
      expect_every_path_alike(std::span(row).subspan(offset));
    }
  }
}

// Around 2^−85 a denormal begins to be worth half a unit.
TEST(Fingerprint, EveryInstructionSetAgreesWhereDenormalsBeginToCount) {
  for (float greatest : {0x1p-84f, 0x1.fffffep-85f, 0x1p-85f, 0x1.fffffep-86f, 0x1p-86f}) {
    Row row = {greatest};
    for (float x : {0x1p-126f, 0x1.000002p-126f, 0x1.8p-126f, 0x3p-126f, 0x1.fffffcp-127f,
                    0x1p-127f, 0x1.8p-127f, 0x1p-128f, kDenormal, 0x1p-125f, 0x5p-126f}) {
      row.push_back(x);
      row.push_back(-x);
      row.push_back(0.0f);
    }
    expect_every_path_alike(row);
    expect_reference(row, fingerprint_sums(row));
  }
}

TEST(Fingerprint, GreatestMagnitudeIsThatOfTheFiniteValues) {
  std::mt19937_64 random(13);
  for (std::size_t n = 0; n <= 300; ++n) {
    const Row row = make_row(
        n, [&](std::size_t) { return random_value(random, static_cast<int>(n % kKinds)); });
    std::uint32_t expected = 0;
    for (float x : row) {
      if (std::isfinite(x)) expected = std::max(expected, float_bits(std::fabs(x)));
    }
    EXPECT_EQ(finite_max_magnitude(row), expected);
  }
}

TEST(Fingerprint, AnySplitMergedGivesTheSameBits) {
  for (const Row& row : hostile_rows()) {
    for (std::size_t width : {1u, 7u, 32u, 64u, 333u, 4096u}) {
      FingerprintSums total(finite_max_magnitude(row));
      const std::size_t parts = (row.size() + width - 1) / width;
      for (std::size_t part = parts; part-- > 0;) {  // last part first: order must not matter
        FingerprintSums sums(total.max_magnitude);
        const std::size_t end = std::min(row.size(), (part + 1) * width);
        for (std::size_t i = part * width; i < end; ++i) sums.add(i, row[i]);
        total.merge(sums);
      }
      EXPECT_EQ(total, fingerprint_sums(row)) << row.size() << " in parts of " << width;
    }
  }
}

TEST(Fingerprint, ThreadsThatMeetNewIndicesAtOnceAgree) {
  const Row row = make_row(300000, dense_value);
  const FingerprintSums expected = sums_in_order(row, natural_order(row.size()));
  std::vector<FingerprintSums> results(8);
  std::vector<std::thread> threads;
  for (FingerprintSums& result : results) {
    threads.emplace_back([&row, &result] { result = fingerprint_sums(row); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const FingerprintSums& result : results) EXPECT_EQ(result, expected);
}

TEST(Fingerprint, EmptyRowHasNoExtremesAndZeroSums) {
  const Fingerprint print = fingerprint({});
  EXPECT_EQ(print.n, 0u);
  EXPECT_EQ(print.hash, 0u);
  EXPECT_TRUE(std::isnan(print.min) && std::isnan(print.max) && std::isnan(print.mean));
  EXPECT_EQ(print.abs_sum, 0.0);
  EXPECT_EQ(print.sum_sq, 0.0);
  EXPECT_EQ(print.sketch, (std::array<double, kSketchValues>{}));
}

TEST(Fingerprint, RowWithoutFiniteValueHasNoExtremesButCounts) {
  const Fingerprint print = fingerprint(Row{kInf, kNan, -kInf, kNan});
  EXPECT_TRUE(std::isnan(print.min) && std::isnan(print.max) && std::isnan(print.mean));
  EXPECT_EQ(print.nan, 2u);
  EXPECT_EQ(print.inf, 2u);
  EXPECT_EQ(print.nz_count, 4u);
  EXPECT_EQ(print.abs_sum, 0.0);
}

TEST(Fingerprint, NonFiniteValuesStayOutOfTheStatistics) {
  const Fingerprint print = fingerprint(Row{1, kInf, -kInf, kNan, -2, 0});
  EXPECT_EQ(print.min, -2.0f);
  EXPECT_EQ(print.max, 1.0f);
  EXPECT_EQ(print.mean, -1.0 / 3.0);
  EXPECT_EQ(print.abs_sum, 3.0);
  EXPECT_EQ(print.sum_sq, 5.0);
  EXPECT_EQ(print.nz_count, 5u);
}

TEST(Fingerprint, MinusZeroIsZeroToTheCountsAndAnotherPatternToTheHash) {
  const Fingerprint minus = fingerprint(Row{-0.0f, -0.0f});
  const Fingerprint mixed = fingerprint(Row{0.0f, -0.0f});
  EXPECT_NE(minus.hash, mixed.hash);
  EXPECT_EQ(minus.nz_count, 0u);
  EXPECT_EQ(minus.mean, 0.0);
  EXPECT_TRUE(std::signbit(minus.max));
  EXPECT_TRUE(std::signbit(mixed.min));
  EXPECT_FALSE(std::signbit(mixed.max));
}

TEST(Fingerprint, SingleValueIsExact) {
  for (float x : {1.0f, -3.5f, kDenormal, -kDenormal, kFloatMax, 0x1.fffffcp-127f, 0x1p-126f}) {
    const Fingerprint print = fingerprint(Row{x});
    EXPECT_EQ(print.min, x);
    EXPECT_EQ(print.max, x);
    EXPECT_EQ(print.mean, static_cast<double>(x));
    EXPECT_EQ(print.abs_sum, std::fabs(static_cast<double>(x)));
    const double map0 = std::accumulate(print.sketch.begin(), print.sketch.begin() + 16, 0.0);
    EXPECT_EQ(std::fabs(map0), std::fabs(static_cast<double>(x)));
  }
}

TEST(Fingerprint, DenormalRowsKeepEveryBit) {
  const Row row = make_row(4096, denormal_value);
  double sum = 0, abs_sum = 0;  // multiples of 2^−149 below 2^−114: exact in double
  for (float x : row) {
    sum += static_cast<double>(x);
    abs_sum += std::fabs(static_cast<double>(x));
  }
  const Fingerprint print = fingerprint(row);
  EXPECT_EQ(print.mean, sum / 4096.0);
  EXPECT_EQ(print.abs_sum, abs_sum);
  EXPECT_TRUE(std::isnormal(print.sum_sq));
  EXPECT_NEAR(print.sum_sq / (4096 * 0x1p-252 / 3), 1.0, 0.1);
}

TEST(Fingerprint, EveryNanPayloadHashesAlike) {
  const std::uint64_t expected = fingerprint(Row{1, kNan, 2}).hash;
  for (std::uint32_t bits : {0x7f800001u, 0x7fa00000u, 0x7fffffffu, 0xffc00000u, 0xff800001u}) {
    EXPECT_EQ(fingerprint(Row{1, std::bit_cast<float>(bits), 2}).hash, expected);
  }
  EXPECT_NE(fingerprint(Row{1, kInf, 2}).hash, expected);
}

TEST(Fingerprint, OneFlippedBitAnywhereChangesTheHash) {
  const Row row = make_row(300, dense_value);
  const std::uint64_t expected = fingerprint(row).hash;
  for (std::size_t i = 0; i < row.size(); ++i) {
    Row other = row;
    other[i] = std::bit_cast<float>(float_bits(row[i]) ^ (1u << (i % 32)));
    EXPECT_NE(fingerprint(other).hash, expected) << i;
  }
}

TEST(Fingerprint, PermutedRowHasAnotherHashButTheSameStatistics) {
  const Row row = make_row(1000, dense_value);
  for (std::size_t i = 1; i < row.size(); ++i) {
    Row other = row;
    std::swap(other[0], other[i]);
    const Fingerprint a = fingerprint(row), b = fingerprint(other);
    EXPECT_NE(a.hash, b.hash);
    EXPECT_EQ(double_bits(a.mean), double_bits(b.mean));
    EXPECT_EQ(double_bits(a.sum_sq), double_bits(b.sum_sq));
  }
}

TEST(Fingerprint, TiesRoundToEvenOnBothSides) {
  // Beside 1 the unit is 2^−40, so these are 0.5, 1.5, 2.5 and 0.5 + 2^−24 units.
  const auto quantised = [](float x) { return quantise(float_bits(x), scale_for(0x3f800000u)); };
  EXPECT_EQ(quantised(0x1p-41f), 0u);
  EXPECT_EQ(quantised(0x3p-41f), 2u);
  EXPECT_EQ(quantised(0x5p-41f), 2u);
  EXPECT_EQ(quantised(0x1.000002p-41f), 1u);
  EXPECT_EQ(quantised(0x1.fffffep-42f), 0u);
  EXPECT_EQ(quantised(kDenormal), 0u);
  EXPECT_EQ(fingerprint_sums(Row{1, -0x3p-41f}).sum, (std::int64_t{1} << 40) - 2);
}

TEST(Fingerprint, ScaleCoversTheWholeRangeOfFloat) {
  EXPECT_EQ(scale_for(0), 0);
  EXPECT_EQ(scale_for(float_bits(kDenormal)), 189);
  EXPECT_EQ(scale_for(0x007fffffu), 167);
  EXPECT_EQ(scale_for(0x00800000u), 166);
  EXPECT_EQ(scale_for(float_bits(1.0f)), 40);
  EXPECT_EQ(scale_for(float_bits(kFloatMax)), -87);
}

TEST(Fingerprint, MixIsTheFinaliserOfSplitMix64) {
  constexpr std::uint64_t kGamma = 0x9e3779b97f4a7c15u;  // seed 1234567, published first outputs
  EXPECT_EQ(mix64(1234567 + kGamma), 6457827717110365317u);
  EXPECT_EQ(mix64(1234567 + 2 * kGamma), 3203168211198807973u);
  EXPECT_EQ(mix64(1234567 + 3 * kGamma), 9817491932198370423u);
}

TEST(Fingerprint, StatisticsKeepTheDocumentedPrecision) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const std::size_t n = 1 + mix64(seed + 1) % 20000;
    const float outlier = std::ldexp(1.0f, static_cast<int>(seed % 40));
    const Row row = make_row(
        n, [&](std::size_t i) { return i % 1000 == 5 ? outlier : bell_value(seed, i) * 0.01f; });
    long double sum = 0, abs_sum = 0, sum_sq = 0, greatest = 0;
    for (float x : row) {
      const long double v = x;
      sum += v;
      abs_sum += std::fabs(v);
      sum_sq += v * v;
      greatest = std::max(greatest, std::fabs(v));
    }
    const auto count = static_cast<long double>(n);
    const long double sum_error = count * greatest * 0x1p-41L;
    const long double square_error =
        1.001L * (greatest * 0x1p-20L * abs_sum + count * greatest * greatest * 0x1p-42L);
    const Fingerprint print = fingerprint(row);
    EXPECT_LE(std::fabs(print.mean * count - sum), sum_error + 0x1p-51L * std::fabs(sum));
    EXPECT_LE(std::fabs(print.abs_sum - abs_sum), sum_error + 0x1p-52L * abs_sum);
    EXPECT_LE(std::fabs(print.sum_sq - sum_sq), square_error + 0x1p-52L * sum_sq);
  }
}

double distance_estimate(const Fingerprint& a, const Fingerprint& b) {
  double total = 0;
  for (std::size_t j = 0; j < kSketchValues; ++j) {
    total += (a.sketch[j] - b.sketch[j]) * (a.sketch[j] - b.sketch[j]);
  }
  return std::sqrt(total / static_cast<double>(kSketchMaps));
}

TEST(Fingerprint, SketchEstimatesTheDistanceOfDenseDifferences) {
  int inside = 0;
  double ratio_of_squares = 0;
  for (std::uint64_t trial = 0; trial < 400; ++trial) {
    const std::size_t n = 512 + mix64(trial + 1) % 4096;
    const Row a = make_row(n, [&](std::size_t i) { return bell_value(2 * trial, i); });
    const Row b =
        make_row(n, [&](std::size_t i) { return a[i] + 1e-3f * bell_value(2 * trial + 1, i); });
    double squares = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
      squares += d * d;
    }
    const double estimate = distance_estimate(fingerprint(a), fingerprint(b));
    const double ratio = std::sqrt(squares) / estimate;
    inside += ratio >= 0.80 && ratio <= 1.32 ? 1 : 0;
    ratio_of_squares += estimate * estimate / squares / 400;
  }
  EXPECT_GE(inside, 372);
  EXPECT_NEAR(ratio_of_squares, 1.0, 0.05);  // unbiased; four standard errors
}

TEST(Fingerprint, SketchSpreadsIndicesEvenlyAndTheMapsAreIndependent) {
  std::array<int, 32 * 32> joint{};
  constexpr int kExpected = 1024;
  for (std::size_t i = 0; i < joint.size() * kExpected; ++i) {
    ++joint[sketch_code(i, 0) * 32 + sketch_code(i, 1)];
  }
  double chi_square = 0;  // 1023 degrees of freedom: mean 1023, deviation 45
  for (int count : joint) chi_square += std::pow(count - kExpected, 2) / kExpected;
  EXPECT_NEAR(chi_square, 1023, 4 * 45.2);
}

TEST(Fingerprint, LongestRowIsAcceptedAndOneMoreRefused) {
  Row row(kMaxTokenValues, kFloatMax);
  const FingerprintSums sums = fingerprint_sums(row);
  EXPECT_EQ(sums.sum_sq, std::uint64_t{1} << 63);  // the greatest possible
  EXPECT_EQ(sums.abs_sum, std::uint64_t{0xffffff} << 38);
  expect_reference(row, sums);
  const std::span<const float> endless(row.data(), kMaxFingerprintValues + 1);
  EXPECT_THROW(fingerprint(endless), std::length_error);
  EXPECT_THROW(fingerprint_sums(endless), std::length_error);
  EXPECT_THROW(FingerprintSums(0, kMaxFingerprintValues + 1), std::length_error);
}

TEST(Fingerprint, RowsLongerThanATokensLoseABitForEveryDoubling) {
  EXPECT_EQ(lost_bits(0), 0);
  EXPECT_EQ(lost_bits(kMaxTokenValues), 0);
  EXPECT_EQ(lost_bits(kMaxTokenValues + 1), 1);
  EXPECT_EQ(lost_bits(2 * kMaxTokenValues), 1);
  EXPECT_EQ(lost_bits(2 * kMaxTokenValues + 1), 2);
  EXPECT_EQ(lost_bits(kMaxFingerprintValues), 10);
  Row row(2 * kMaxTokenValues, kFloatMax);
  const FingerprintSums sums = fingerprint_sums(row);
  EXPECT_EQ(sums.scale, -88);
  EXPECT_EQ(sums.sum_sq, std::uint64_t{1} << 62);
  expect_reference(row, sums);
}

TEST(Fingerprint, PartsOfALongRowAddUpToTheWhole) {
  const Row row = make_row(kMaxTokenValues + 3 * 4096 + 77, any_bits);
  const FingerprintSums whole = fingerprint_sums(row);
  expect_reference(row, whole);
  FingerprintSums total(finite_max_magnitude(row), row.size()), rest = total;
  for (std::size_t i = 0; i < row.size(); ++i) (i % 3 == 0 ? total : rest).add(i, row[i]);
  total.merge(rest);
  EXPECT_EQ(total, whole);
  FingerprintSums of_short(finite_max_magnitude(row));  // in another scale
  EXPECT_THROW(total.merge(of_short), std::invalid_argument);
  Row changed = row;
  changed.back() = changed.back() == 1.0f ? 2.0f : 1.0f;
  EXPECT_NE(fingerprint(changed).hash, fingerprint(row).hash);
}

TEST(Fingerprint, WronglyPreparedPartsAreRefused) {
  EXPECT_THROW(FingerprintSums{kInfinityBits}, std::invalid_argument);
  FingerprintSums one(float_bits(1.0f)), two(float_bits(2.0f));
  EXPECT_THROW(one.add(0, 1.5f), std::invalid_argument);
  EXPECT_THROW(one.add(kMaxFingerprintValues, 1.0f), std::out_of_range);
  EXPECT_THROW(one.merge(two), std::invalid_argument);
  EXPECT_THROW(one.finish(), std::logic_error);
  one.add(0, 0.5f);
  EXPECT_THROW(one.finish(), std::logic_error);
  one.add(1, -1.0f);
  EXPECT_EQ(one.finish().min, -1.0f);
  one.n = kMaxFingerprintValues;
  EXPECT_THROW(one.merge(one), std::length_error);
}

TEST(LegacyHash, IsTheWordwiseFnv1aOfTheFirst256Values) {
  EXPECT_EQ(legacy_fnv_hash({}), 1469598103934665603u);
  EXPECT_EQ(legacy_fnv_hash(Row(256, 0.0f)), 15917194557428993923u);
  EXPECT_EQ(legacy_fnv_hash(Row(4096, 0.0f)), 15917194557428993923u);
  EXPECT_NE(legacy_fnv_hash(Row(255, 0.0f)), 15917194557428993923u);
  // The word is xored in before the multiplication.
  EXPECT_EQ(legacy_fnv_hash(Row{1.0f}), (1469598103934665603u ^ 0x3f800000u) * 1099511628211u);
  Row tail = make_row(300, dense_value);
  const std::uint64_t expected = legacy_fnv_hash(tail);
  tail[256] += 1.0f;
  EXPECT_EQ(legacy_fnv_hash(tail), expected);
  tail[255] += 1.0f;
  EXPECT_NE(legacy_fnv_hash(tail), expected);
}

using namespace test_rows;

std::string document_line(const Vector& v) {
  std::ostringstream line;
  line << "| " << v.name << " | " << v.row.size() << " | " << v.hash << " | " << v.scale << " | "
       << v.sum << " | " << v.abs_sum << " | " << v.sum_sq;
  for (std::int64_t bucket : v.buckets) line << " | " << bucket;
  line << " |";
  return line.str();
}

TEST(Fingerprint, PublishedTestVectors) {
  for (const Vector& v : published_vectors()) {
    SCOPED_TRACE(v.name);
    const FingerprintSums sums = fingerprint_sums(v.row);
    EXPECT_EQ(sums.hash, v.hash);
    EXPECT_EQ(sums.scale, v.scale);
    EXPECT_EQ(sums.sum, v.sum);
    EXPECT_EQ(sums.abs_sum, v.abs_sum);
    EXPECT_EQ(sums.sum_sq, v.sum_sq);
    const auto& b = sums.buckets;
    EXPECT_EQ((std::array{b[0], b[15], b[16], b[31]}), v.buckets);
    EXPECT_EQ(sums, sums_in_order(v.row, natural_order(v.row.size())));
    expect_reference(v.row, sums);
  }
}

TEST(Fingerprint, DocumentListsThePublishedTestVectors) {
  const std::string text = bytes_of(GRETA_SOURCE_DIR "/docs/fingerprint.md");
  for (const Vector& v : published_vectors()) {
    EXPECT_NE(text.find("\n" + document_line(v) + "\n"), std::string::npos) << document_line(v);
  }
}

}  // namespace

}  // namespace greta
