#include "tests/engine/forward/reference_f64.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/engine/engine_fixture.h"

namespace greta {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Reference, SidesOfACleanProbeAreTheSameNumbers) {
  const TestModel model(small_shape(), "q4_k_m");
  const Reference reference(model.file());
  const std::vector<int32_t> tokens = model.tokens(7);
  for (const Mode mode : {Mode::kAsDesigned, Mode::kKvAligned}) {
    const ReferenceProbe probe = reference.probe(tokens, mode, {});
    for (int layer = 0; layer < 3; ++layer) {
      for (const TracePoint point :
           {TracePoint::kKCache, TracePoint::kAttnProbs, TracePoint::kXOut}) {
        EXPECT_LE(relative_l2(probe.prefill.at(point, layer), probe.decode.at(point, layer)),
                  1e-14);
      }
    }
    EXPECT_LE(relative_l2(probe.decode.at(TracePoint::kLogits, kLayerAfterStack),
                          reference.logits(tokens).back()),
              1e-14);
  }
}

TEST(Reference, StopsAfterTheLayerAskedFor) {
  const TestModel model(small_shape());
  const ReferenceProbe probe =
      Reference(model.file()).probe(model.tokens(3), Mode::kAsDesigned, {}, 1);
  EXPECT_EQ(probe.decode.at(TracePoint::kXOut, 1).size(), 256u);
  EXPECT_THROW(probe.decode.at(TracePoint::kXOut, 2), std::out_of_range);
  EXPECT_THROW(probe.decode.at(TracePoint::kLogits, kLayerAfterStack), std::out_of_range);
}

TEST(RelativeL2, IsTheDistanceOverTheLargerNorm) {
  EXPECT_EQ(relative_l2(std::vector{3.0, 4.0}, std::vector{3.0, 4.0}), 0);
  EXPECT_EQ(relative_l2(std::vector{0.0, 0.0}, std::vector{3.0, 4.0}), 1);
  EXPECT_EQ(relative_l2(std::vector{4.0, 0.0}, std::vector{3.0, 0.0}), 0.25);
  EXPECT_EQ(relative_l2(std::vector{0.0}, std::vector{0.0}), 0);
  EXPECT_TRUE(std::isnan(relative_l2(std::vector{kInfinity}, std::vector{kInfinity})));
  EXPECT_TRUE(std::isnan(relative_l2(std::vector{0.0}, std::vector{std::nan("")})));
  EXPECT_THROW(relative_l2(std::vector{1.0}, std::vector{1.0, 2.0}), std::invalid_argument);
}

}  // namespace
}  // namespace greta
