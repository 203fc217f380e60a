// One operation of decode on the input of prefill's: it makes the difference, or the input does.

#include "engine/probe/replay.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/row_difference.h"
#include "tests/engine/forward/tampered_backend.h"
#include "tests/engine/probe/probe_fixture.h"

namespace greta {
namespace {

constexpr int64_t kPromptTokens = 7, kLastDecoded = 9;  // tokens, and the last position decoded

class ReplayTest : public testing::Test {
 protected:
  explicit ReplayTest(const SynthShape& shape = small_shape()) : model_(shape) {}

  Replayed run(const PairPlace& place, Mode mode, std::vector<Fault> faults = {}) {
    ProbeOptions options{.forward = engine_.options(mode, std::move(faults)), .selection = {}};
    const ProbePrompt prompt{
        .name = "p", .text_sha256 = "", .tokens = model_.tokens(kPromptTokens), .decode_steps = 3};
    return replay(engine_.model, engine_.weights, *engine_.backend, options, prompt, place);
  }

  static double distance(const std::vector<float>& a, const std::vector<float>& b) {
    EXPECT_EQ(a.size(), b.size());
    return row_difference({a.data(), b.data(), std::ssize(a), {}}).rel_l2();
  }
  static bool same(const std::vector<float>& a, const std::vector<float>& b) {
    return row_difference({a.data(), b.data(), std::ssize(a), {}}).differing == 0;
  }

  /// Every place that an operation makes, of layer 1 and outside of the layers.
  static std::vector<PairPlace> places(int64_t pos) {
    std::vector<PairPlace> all;
    for (int i = 0; i < kTracePoints; ++i) {
      const auto point = static_cast<TracePoint>(i);
      const Stage stage = trace_point_stage(point);
      try {
        inputs_of(point);
      } catch (const std::invalid_argument&) {
        continue;
      }
      all.push_back(
          {point, stage == Stage::kHead ? kLayerAfterStack : stage == Stage::kLayer, pos});
    }
    return all;
  }

  TestModel model_;
  TestEngine engine_{model_, 1};
};

class ReplayOfArchitecture : public ReplayTest, public testing::WithParamInterface<NamedShape> {
 protected:
  ReplayOfArchitecture() : ReplayTest(GetParam().shape) {}
};

TEST_P(ReplayOfArchitecture, EveryOperationHasTheBitsOfPrefillWhereRoutesAreTheSame) {
  for (const PairPlace& place : places(kLastDecoded)) {
    SCOPED_TRACE(row_name({place.point, place.layer}));
    const Replayed rows = run(place, Mode::kBatchInvariant);
    EXPECT_TRUE(same(rows.alone, rows.prefill.sample));
    EXPECT_TRUE(same(rows.alone, rows.decode.sample));
    EXPECT_TRUE(same(rows.again, rows.decode.sample));
  }
}

INSTANTIATE_TEST_SUITE_P(Others, ReplayOfArchitecture, testing::ValuesIn(other_shapes()),
                         [](const auto& param) { return param.param.name; });

TEST_F(ReplayTest, EveryOperationHasTheBitsOfPrefillWhereRoutesAreTheSame) {
  for (const int64_t pos : {kPromptTokens - 1, kLastDecoded}) {
    for (const PairPlace& place : places(pos)) {
      SCOPED_TRACE(row_name({place.point, place.layer}) + " at " + std::to_string(pos));
      const Replayed rows = run(place, Mode::kBatchInvariant);
      EXPECT_TRUE(same(rows.alone, rows.prefill.sample));
      EXPECT_TRUE(same(rows.alone, rows.decode.sample));
      EXPECT_TRUE(same(rows.again, rows.decode.sample));
      EXPECT_TRUE(same(rows.again, rows.decode.sample));
    }
  }
}

TEST_F(ReplayTest, OtherRoutesDifferByRounding) {
  for (const PairPlace& place : places(kPromptTokens - 1)) {
    SCOPED_TRACE(row_name({place.point, place.layer}));
    const Replayed rows = run(place, Mode::kAsDesigned);
    EXPECT_LT(distance(rows.alone, rows.prefill.sample), 1e-5);
    EXPECT_LT(distance(rows.decode.sample, rows.prefill.sample), 1e-4);
  }
}

TEST_F(ReplayTest, ReproducesTheDifferenceWhereAFaultArises) {
  for (const FaultInfo& info : fault_catalogue()) {
    const bool head = trace_point_stage(info.shows_at) == Stage::kHead;
    // The route of prefill differs in nothing here, and no operation makes all rows of the cache.
    const bool no_operation = info.kind == FaultKind::kKCacheSpoiled ||
                              info.kind == FaultKind::kRopeThetaKept;  // another prompt makes it
    if (info.kind == FaultKind::kLmHeadRoute || no_operation) continue;
    SCOPED_TRACE(std::string(info.name));
    Fault fault = parse_fault(info.name);
    if (!head) fault.layer = 1;
    const Replayed rows = run({info.shows_at, head ? kLayerAfterStack : 1, kPromptTokens - 1},
                              Mode::kBatchInvariant, {fault});
    EXPECT_FALSE(same(rows.alone, rows.prefill.sample));
    EXPECT_TRUE(same(rows.alone, rows.decode.sample));
    EXPECT_TRUE(same(rows.again, rows.decode.sample));
  }
}

TEST_F(ReplayTest, ADifferenceOfTheInputIsNotTheOperations) {
  const Fault fault = parse_fault("rope_theta@decode:layer=1");
  for (const PairPlace& place : places(kPromptTokens - 1)) {
    const bool after = place.layer == kLayerAfterStack ||
                       (place.layer == 1 && place.point >= TracePoint::kAttnScores);
    if (!after || place.point == TracePoint::kLogitsTop1) continue;
    SCOPED_TRACE(row_name({place.point, place.layer}));
    const Replayed rows = run(place, Mode::kBatchInvariant, {fault});
    EXPECT_FALSE(same(rows.decode.sample, rows.prefill.sample));
    EXPECT_TRUE(same(rows.alone, rows.prefill.sample));
    EXPECT_TRUE(same(rows.again, rows.decode.sample));
  }
}

TEST_F(ReplayTest, ACallThatIsWrongIsNotTheOperations) {
  auto inner = std::make_unique<TamperedBackend>(make_cpu_backend(1));
  int64_t n_calls = 0;  // of decode: those of the pass come before those of the operation alone
  inner->tamper = [&](std::string_view name, float* out, int64_t n,
                      const std::function<void()>& compute) {
    compute();
    if (name != "attention" || n != model_.model().config().q_dim()) return;
    if (n_calls++ == 1) std::fill_n(out, n / 2, 0.0F);  // layer 1 of decode0
  };
  const TestEngine broken(model_, std::move(inner));
  const ProbeOptions options{.forward = broken.options(Mode::kBatchInvariant), .selection = {}};
  const ProbePrompt prompt{
      .name = "p", .text_sha256 = "", .tokens = model_.tokens(kPromptTokens), .decode_steps = 1};
  const auto at = [&](TracePoint point) {
    n_calls = 0;
    return replay(broken.model, broken.weights, *broken.backend, options, prompt,
                  {point, 1, kPromptTokens - 1});
  };
  const Replayed rows = at(TracePoint::kAttnOut);
  EXPECT_TRUE(same(rows.alone, rows.prefill.sample));
  EXPECT_TRUE(same(rows.again, rows.prefill.sample));
  EXPECT_FALSE(same(rows.again, rows.decode.sample));
  const Replayed after = at(TracePoint::kWoOut);
  EXPECT_TRUE(same(after.alone, after.prefill.sample));
  EXPECT_FALSE(same(after.decode.sample, after.prefill.sample));
  EXPECT_TRUE(same(after.again, after.decode.sample)) << "comes with the input";
}

TEST_F(ReplayTest, AFaultThatBeginsLaterIsNotThereYet) {
  const Fault fault = parse_fault("rope_theta@decode:layer=1:pos=9");
  const auto at = [&](int64_t pos) {
    const Replayed rows = run({TracePoint::kQPostRope, 1, pos}, Mode::kBatchInvariant, {fault});
    return same(rows.alone, rows.prefill.sample);
  };
  EXPECT_TRUE(at(8));
  EXPECT_FALSE(at(9));
}

TEST_F(ReplayTest, RefusesWhatNoOperationMakes) {
  for (const TracePoint point : {TracePoint::kEmbdWHash, TracePoint::kResidualPreAttn,
                                 TracePoint::kRmsWeight, TracePoint::kHidden}) {
    EXPECT_THROW(run({point, 0, 6}, Mode::kAsDesigned), std::invalid_argument);
  }
  EXPECT_THROW(run({TracePoint::kKCache, 0, 6}, Mode::kKvAligned), std::invalid_argument);
  EXPECT_THROW(run({TracePoint::kWoOut, 0, 5}, Mode::kAsDesigned), std::runtime_error);
}

TEST_F(ReplayTest, KvAlignedAttendsOverTheRowsOfPrefill) {
  const Replayed rows = run({TracePoint::kAttnOut, 1, kPromptTokens - 1}, Mode::kKvAligned);
  EXPECT_LT(distance(rows.alone, rows.prefill.sample), 1e-5);
}

}  // namespace
}  // namespace greta
