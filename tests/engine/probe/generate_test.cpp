#include "engine/probe/generate.h"

#include <gtest/gtest.h>

#include "tests/engine/engine_fixture.h"

namespace greta {
namespace {

class GeneratorTest : public testing::Test {
 protected:
  GenerateResult run(const char* fault, bool greedy = true) {
    GenerateOptions options{.forward = engine_.options(Mode::kAsDesigned),
                            .sampler = {.temperature = greedy ? 0.0 : 1.0},
                            .selection = {},
                            .max_tokens = 6};
    options.selection.phases = {Phase::kDecode0, Phase::kDecode};
    options.selection.layers = {0};
    options.selection.points = {TracePoint::kQPreRope};
    if (*fault != '\0') options.forward.faults = FaultSet({parse_fault(fault)});
    Generator generator(engine_.model, engine_.weights, *engine_.backend, 16, options);
    sink_ = {};
    return generator.run(model_.tokens(4), &sink_);
  }

  TestModel model_{small_shape()};
  TestEngine engine_{model_};
  MemorySink sink_;
};

TEST_F(GeneratorTest, UntracedLogitsAreWrittenWhereTheyAreNotFinite) {
  EXPECT_EQ(run("").stop, GenerateResult::Stop::kMaxTokens);
  EXPECT_EQ(sink_.records.size(), 5u);
  for (const TraceRecord& row : sink_.records) EXPECT_EQ(row.point, TracePoint::kQPreRope);
}

TEST_F(GeneratorTest, EndsWithItsRowsWhereNoLogitIsANumber) {
  for (const bool greedy : {true, false}) {
    const GenerateResult result = run("softmax_no_max:step=3", greedy);
    EXPECT_EQ(result.stop, GenerateResult::Stop::kNoChoice);
    EXPECT_EQ(result.n_generated, 3);
    ASSERT_EQ(sink_.records.size(), 4u);
    EXPECT_EQ(sink_.records.back().point, TracePoint::kLogits);
    EXPECT_EQ(sink_.records.back().pos_id, 6);
    EXPECT_GT(sink_.records.back().fingerprint.nan, 0u);
    ASSERT_EQ(sink_.readouts.size(), 3u);
    EXPECT_EQ(sink_.readouts.back().top1_id, -1);
  }
}

}  // namespace
}  // namespace greta
