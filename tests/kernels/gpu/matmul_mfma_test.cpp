#include "kernels/gpu/matmul_mfma.h"

#include <limits>
#include <stdexcept>
#include <vector>

#include "tests/kernels/gpu/half_products.h"

namespace greta {
namespace {

constexpr MfmaTile kTiles[] = {MfmaTile::kWide, MfmaTile::kSquare, MfmaTile::kSmall,
                               MfmaTile::kThin};

class MatmulMfma : public HalfProductTest {
 protected:
  std::vector<float> multiply(const HostProduct& host) {
    return run(host, [&](const HalfProduct& product) { matmul_mfma(product, stream_); });
  }
  std::vector<float> multiply(const HostProduct& host, MfmaTile tile) {
    return run(host, [&](const HalfProduct& product) { matmul_mfma(product, tile, stream_); });
  }
};

TEST_F(MatmulMfma, IntegersAreExactAtOddSizes) {
  for (int64_t n_tokens : {1, 7, 33, 129}) {
    for (int64_t rows : {1, 40, 130}) {
      for (int64_t cols : {8, 24, 130, 192, 257}) {
        const HalfType type = kHalfTypes[(n_tokens + rows + cols) % 2];
        const HostProduct host = HostProduct::of_integers(type, n_tokens, rows, cols);
        host.expect_exactly(multiply(host));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(MatmulMfma, IntegersAreExactWithEveryTile) {
  for (HalfType type : kHalfTypes) {
    for (MfmaTile tile : kTiles) {
      for (int64_t cols : {128, 384}) {  // both multiples of every tile's depth
        const HostProduct host = HostProduct::of_integers(type, 133, 261, cols);
        host.expect_exactly(multiply(host, tile));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(MatmulMfma, SumsLongerThanThePipelineAreExact) {
  const HostProduct host = HostProduct::of_integers(HalfType::kBF16, 3, 70, 1920);
  host.expect_exactly(multiply(host));
}

TEST_F(MatmulMfma, AgreesWithDouble) {
  for (HalfType type : kHalfTypes) {
    for (int64_t cols : {256, 1000}) {
      const HostProduct host = HostProduct::of_bells(type, 35, 67, cols);
      host.expect_nearly(multiply(host));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(MatmulMfma, ATokensBitsDependOnNeitherTileNorBatchNorPlace) {
  const HostProduct host = HostProduct::of_bells(HalfType::kF16, 70, 67, 256);
  const auto rows = static_cast<size_t>(host.rows), cols = static_cast<size_t>(host.cols);
  const std::vector<uint32_t> all = bits_of(multiply(host));
  for (MfmaTile tile : kTiles) EXPECT_EQ(bits_of(multiply(host, tile)), all);
  for (size_t token : {size_t{0}, size_t{31}, size_t{69}}) {
    HostProduct alone = host;
    alone.n_tokens = 1;
    alone.x.assign(host.x.begin() + static_cast<ptrdiff_t>(token * cols),
                   host.x.begin() + static_cast<ptrdiff_t>((token + 1) * cols));
    const std::vector<uint32_t> its(all.begin() + static_cast<ptrdiff_t>(token * rows),
                                    all.begin() + static_cast<ptrdiff_t>((token + 1) * rows));
    EXPECT_EQ(bits_of(multiply(alone)), its) << "token " << token;
  }
}

TEST_F(MatmulMfma, SumsOfManyColumnsAreMadeInTheSameChunksByEveryTile) {
  EXPECT_EQ(mfma_chunk_columns(4095), 4095);
  EXPECT_EQ(mfma_chunk_columns(4096), 2048);
  EXPECT_EQ(mfma_chunk_columns(14336), 3584);
  const HostProduct host = HostProduct::of_bells(HalfType::kF16, 2, 5, 4352);
  const std::vector<uint32_t> bits = bits_of(multiply(host, MfmaTile::kSmall));
  for (MfmaTile tile : kTiles) EXPECT_EQ(bits_of(multiply(host, tile)), bits);
  host.expect_nearly(multiply(host));
}

TEST_F(MatmulMfma, ProductsOfOneXTogetherHaveTheBitsOfEachAlone) {
  const bool is_slow = device_info().name == "emulator";  // elsewhere they fill the device, in one
  const HostProduct host =
      HostProduct::of_bells(HalfType::kF16, is_slow ? 40 : 2689, is_slow ? 34 : 1027, 64);
  const int64_t first = host.rows - 21, cuts[] = {0, first, first + 1, host.rows};
  const auto together = [&](const HalfProduct& whole) {
    std::vector<HalfProduct> products;
    for (int i = 0; i < 3; ++i) {
      HalfProduct part = whole;
      part.rows = cuts[i + 1] - cuts[i];
      part.w += cuts[i] * whole.cols;
      part.out += cuts[i];
      products.push_back(part);
    }
    const auto before = stream_.launches();
    matmul_mfma(products, stream_);
    if (!is_slow && fits_wide_matmul(whole)) {
      EXPECT_EQ(stream_.launches(), before + 1);
    }
  };
  EXPECT_EQ(bits_of(run(host, together)), bits_of(multiply(host)));
}

TEST_F(MatmulMfma, ProductsTogetherAreOfOneXAndFew) {
  const uint16_t x[2] = {}, w[2] = {};
  float out[4] = {};
  const HalfProduct product{HalfType::kF16, x, w, 1, 1, 1, out, 1};
  HalfProduct other = product;
  other.x = x + 1;
  EXPECT_THROW(matmul_mfma(std::vector{product, other}, stream_), std::invalid_argument);
  EXPECT_THROW(matmul_mfma(std::vector(4, product), stream_), std::invalid_argument);
}

// They are read value by value.
TEST_F(MatmulMfma, UnalignedOperandsGiveTheSameBits) {
  const HostProduct host = HostProduct::of_bells(HalfType::kBF16, 35, 67, 128);
  HostProduct shifted = host;
  shifted.x.insert(shifted.x.begin(), 0x7fff);
  const auto from_second_value = [&](HalfProduct product) {
    ++product.x;
    matmul_mfma(product, stream_);
  };
  EXPECT_EQ(bits_of(run(shifted, from_second_value)), bits_of(multiply(host)));
}

TEST_F(MatmulMfma, ValuesBetweenResultsStay) {
  for (int64_t stride : {68, 69}) {  // results begin at even places, or not
    const HostProduct host = HostProduct::of_integers(HalfType::kF16, 37, 66, 128);
    const auto x = upload(host.x);
    const auto w = upload(host.w);
    auto out = buffer<float>(static_cast<size_t>(host.n_tokens * stride));
    matmul_mfma(
        {host.type, x.data(), w.data(), host.n_tokens, host.rows, host.cols, out.data(), stride},
        stream_);
    const std::vector<float> got = download(out);
    const auto exact = host.exact();
    for (int64_t i = 0; i < host.n_tokens * stride; ++i) {
      const float value = got[static_cast<size_t>(i)];
      if (i % stride < host.rows) {
        const auto at = static_cast<size_t>(i / stride * host.rows + i % stride);
        ASSERT_EQ(static_cast<double>(value), exact[at].sum);
      } else {
        ASSERT_EQ(std::bit_cast<uint32_t>(value), 0xffffffffu) << "of token " << i / stride;
      }
    }
  }
}

TEST_F(MatmulMfma, NonFiniteValuesStayWithTheirTokenAndTheirRow) {
  for (int64_t cols : {128, 130}) {
    HostProduct host = HostProduct::of_integers(HalfType::kF16, 37, 45, cols);
    const auto at = [&](int64_t line, int64_t k) { return static_cast<size_t>(line * cols + k); };
    for (int64_t k = 0; k < cols; ++k) host.x[at(36, k)] = 0x7e00;  // the last token: NaN
    host.x[at(5, 9)] = 0x7c00;                                      // infinity
    for (int64_t r = 0; r < host.rows; ++r) host.w[at(r, 9)] = 0x3c00;
    host.w[at(44, 1)] = 0x7e00;  // the last row: NaN
    const std::vector<float> got = multiply(host);
    const auto exact = host.exact();
    for (int64_t i = 0; i < host.n_tokens * host.rows; ++i) {
      const int64_t token = i / host.rows, row = i % host.rows;
      const float value = got[static_cast<size_t>(i)];
      if (token == 36 || row == 44) {
        ASSERT_TRUE(std::isnan(value)) << token << " " << row;
      } else if (token == 5) {
        ASSERT_EQ(value, std::numeric_limits<float>::infinity());
      } else {
        ASSERT_EQ(static_cast<double>(value), exact[static_cast<size_t>(i)].sum)
            << token << " " << row;
      }
    }
  }
}

TEST_F(MatmulMfma, WithoutColumnsResultsAreZeroAndWithoutLinesNothingIsLaunched) {
  const std::vector<float> got = multiply(HostProduct{HalfType::kF16, 3, 5, 0, {}, {}});
  EXPECT_EQ(bits_of(got), std::vector<uint32_t>(15, 0));
  const int64_t before = stream_.launches();
  multiply(HostProduct::of_integers(HalfType::kF16, 0, 5, 64));
  multiply(HostProduct::of_integers(HalfType::kF16, 5, 0, 64));
  EXPECT_EQ(stream_.launches(), before);
}

TEST_F(MatmulMfma, RefusesMoreColumnsThanItsOffsetsHold) {
  HalfProduct product;
  product.n_tokens = product.rows = 1;
  product.cols = (int64_t{1} << 22) + 1;
  EXPECT_THROW(matmul_mfma(product, stream_), std::length_error);
}

TEST_F(MatmulMfma, WideTilesAreForProductsThatFillTheDevice) {
  const auto tile = [](int64_t n_tokens, int64_t rows) {
    return mfma_tile({HalfType::kF16, nullptr, nullptr, n_tokens, rows, 4096, nullptr, rows});
  };
  EXPECT_EQ(tile(1, 128256), MfmaTile::kThin);
  EXPECT_EQ(tile(32, 4096), MfmaTile::kThin);
  EXPECT_EQ(tile(64, 1024), MfmaTile::kSmall);
  EXPECT_EQ(tile(2048, 4096), MfmaTile::kWide);
  EXPECT_EQ(tile(16384, 14336), MfmaTile::kWide);
}

class BlasProducts : public HalfProductTest {};

TEST_F(BlasProducts, WithoutALibraryTheConstructorSaysSo) {
  if (Blas::available()) GTEST_SKIP() << "there is a BLAS library";
  try {
    Blas blas(stream_);
    FAIL() << "an object without a library";
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("BLAS"), std::string::npos) << error.what();
  }
}

TEST_F(BlasProducts, IntegersAreExact) {
  if (!Blas::available()) GTEST_SKIP() << "no BLAS library";
  Blas blas(stream_);
  for (HalfType type : {HalfType::kF16, HalfType::kBF16}) {
    for (int64_t n_tokens : {1, 7, 129}) {
      for (int64_t cols : {8, 130, 257}) {
        const HostProduct host = HostProduct::of_integers(type, n_tokens, 40, cols);
        host.expect_exactly(run(host, [&](const HalfProduct& product) { blas.matmul(product); }));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(BlasProducts, AgreesWithDouble) {
  if (!Blas::available()) GTEST_SKIP() << "no BLAS library";
  Blas blas(stream_);
  for (HalfType type : {HalfType::kF16, HalfType::kBF16}) {
    const HostProduct host = HostProduct::of_bells(type, 35, 67, 1000);
    host.expect_nearly(run(host, [&](const HalfProduct& product) { blas.matmul(product); }));
  }
}

TEST_F(BlasProducts, ValuesBetweenResultsStay) {
  if (!Blas::available()) GTEST_SKIP() << "no BLAS library";
  Blas blas(stream_);
  const HostProduct host = HostProduct::of_integers(HalfType::kF16, 9, 24, 64);
  const auto x = upload(host.x);
  const auto w = upload(host.w);
  auto out = buffer<float>(9 * 30);
  blas.matmul({host.type, x.data(), w.data(), 9, 24, 64, out.data(), 30});
  const std::vector<float> got = download(out);
  const auto exact = host.exact();
  for (size_t i = 0; i < got.size(); ++i) {
    if (i % 30 < 24) {
      ASSERT_EQ(static_cast<double>(got[i]), exact[i / 30 * 24 + i % 30].sum);
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), 0xffffffffu);
    }
  }
}

TEST_F(BlasProducts, AreRecordedAndReplayed) {
  if (!Blas::available()) GTEST_SKIP() << "no BLAS library";
  Blas blas(stream_);
  const HostProduct host = HostProduct::of_integers(HalfType::kBF16, 65, 96, 4096);
  const auto x = upload(host.x);
  const auto w = upload(host.w);
  auto out = buffer<float>(65 * 96);
  Graph graph = Graph::capture(stream_, [&] {
    blas.matmul({host.type, x.data(), w.data(), 65, 96, 4096, out.data(), 96});
  });
  for (int i = 0; i < 2; ++i) {
    set_bytes(out.data(), out.size(), 0xff, stream_);
    graph.launch(stream_);
    host.expect_exactly(download(out));
  }
}

TEST_F(BlasProducts, ErrorsNameTheCallAndTheSizes) {
  if (!Blas::available()) GTEST_SKIP() << "no BLAS library";
  Blas blas(stream_);
  try {
    blas.matmul({HalfType::kF16, nullptr, nullptr, 3, 40, 64, nullptr, 7});  // results overlap
    FAIL() << "accepted results that overlap";
  } catch (const DeviceError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("GemmEx"), std::string::npos) << text;
    EXPECT_NE(text.find("3 tokens, 40 rows, 64 columns"), std::string::npos) << text;
  }
}

}  // namespace

}  // namespace greta
