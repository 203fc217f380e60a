#include "kernels/gpu/blas.h"

#include "tests/kernels/gpu/half_products.h"

namespace greta {
namespace {

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
