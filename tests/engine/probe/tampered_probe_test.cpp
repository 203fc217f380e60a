// Kernels that leave out a result or change a bit of it: the probe must show where.

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/engine/forward/tampered_backend.h"
#include "tests/engine/probe/probe_fixture.h"

namespace greta {
namespace {

/// A probe on a backend that a test tampers with during decode.
class TamperedProbeTest : public testing::Test {
 protected:
  TamperedProbeTest() {
    auto backend = std::make_unique<TamperedBackend>(make_cpu_backend(1));
    backend_ = backend.get();
    engine_.emplace(model_, std::move(backend));
  }

  /// Runs a probe in which `change` stands for call number `target` of decode, counted from 0.
  MemorySink run(int target,
                 const std::function<void(float* out, int64_t n,
                                          const std::function<void()>& compute)>& change) {
    bool decoding = false;
    calls_ = 0;
    backend_->tamper = [&](std::string_view, float* out, int64_t n,
                           const std::function<void()>& compute) {
      if (decoding && calls_++ == target) {
        change(out, n, compute);
      } else {
        compute();
      }
    };
    MemorySink sink;
    Probe probe(engine_->model, engine_->weights, *backend_, 7,
                probe_options(*engine_, Mode::kBatchInvariant));
    probe.on_progress = [&](const char*) { decoding = true; };
    probe.run({.name = "p", .text_sha256 = "", .tokens = model_.tokens(7)}, sink);
    backend_->tamper = nullptr;
    return sink;
  }

  /// The row that each operation of decode writes, in the order of the calls.
  static std::vector<RowKey> written_rows() {
    std::vector<RowKey> rows{{TracePoint::kEmbedOut, 0}, {TracePoint::kEmbdWHash, 0}};
    for (int layer = 0; layer < 3; ++layer) {
      for (const TracePoint point :
           {TracePoint::kAttnNormOut, TracePoint::kQPreRope, TracePoint::kKPreRope,
            TracePoint::kVProj, TracePoint::kQPostRope, TracePoint::kKPostRope, TracePoint::kKCache,
            TracePoint::kVCache, TracePoint::kAttnOut, TracePoint::kWoOut, TracePoint::kFfnNormIn,
            TracePoint::kMlpOut}) {
        rows.emplace_back(point, layer);
      }
    }
    rows.emplace_back(TracePoint::kFinalNorm, kLayerAfterStack);
    rows.emplace_back(TracePoint::kLogits, kLayerAfterStack);
    return rows;
  }

  TestModel model_{small_shape()};
  TamperedBackend* backend_ = nullptr;
  std::optional<TestEngine> engine_;
  int calls_ = 0;
};

TEST_F(TamperedProbeTest, OperationLeftOutIsSeenWhereItWrites) {
  const std::vector<RowKey> rows = written_rows();
  for (size_t call = 0; call < rows.size(); ++call) {
    const MemorySink sink =
        run(static_cast<int>(call), [](float*, int64_t, const std::function<void()>&) {});
    ASSERT_EQ(static_cast<size_t>(calls_), rows.size());
    const auto [point, layer] = rows[call];
    SCOPED_TRACE("call " + std::to_string(call) + " writes " + row_name(rows[call]));
    const std::vector<RowKey> differ = differences(sink);
    ASSERT_FALSE(differ.empty());
    // Attention writes its scores too, and they come before its output.
    const bool attention = point == TracePoint::kAttnOut;
    EXPECT_EQ(row_name(differ.front()),
              row_name({attention ? TracePoint::kAttnScores : point, layer}));
    // Later layers find what the layer before wrote in the same buffer; before that there is
    // poison.
    const bool cached = point == TracePoint::kKCache || point == TracePoint::kVCache;
    if (layer == 0 || cached || point == TracePoint::kLogits) {
      EXPECT_GT(sink.of(Phase::kDecode0).at(differ.front())->fingerprint.nan, 0u);
    }
  }
}

TEST_F(TamperedProbeTest, LowestBitOfOneValueIsSeenAtItsTensor) {
  const std::vector<RowKey> rows = written_rows();
  for (size_t call = 0; call < rows.size(); ++call) {
    const MemorySink sink = run(static_cast<int>(call),
                                [](float* out, int64_t n, const std::function<void()>& compute) {
                                  compute();
                                  uint32_t bits = 0;
                                  std::memcpy(&bits, out + n / 2, sizeof bits);
                                  bits ^= 1;
                                  std::memcpy(out + n / 2, &bits, sizeof bits);
                                });
    const std::vector<RowKey> differ = differences(sink);
    ASSERT_FALSE(differ.empty()) << row_name(rows[call]);
    EXPECT_EQ(row_name(differ.front()), row_name(rows[call]));
  }
}

TEST_F(TamperedProbeTest, UntamperedSidesAreEqual) {
  EXPECT_TRUE(differences(run(-1, nullptr)).empty());
}

}  // namespace
}  // namespace greta
