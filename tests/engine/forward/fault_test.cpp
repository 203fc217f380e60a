#include "engine/forward/fault.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "tests/engine/forward/reference_f64.h"
#include "tests/engine/probe/probe_fixture.h"

namespace greta {
namespace {

/// A fault of the catalogue as its text spells it, on one side of a probe.
struct FaultCase {
  std::string text;  ///< rope_pos_off_by_one@decode:layer=1:magnitude=1
  Fault fault;
  TracePoint shows_at;
  int layer;
  SynthShape shape;

  friend void PrintTo(const FaultCase& one, std::ostream* out) { *out << one.text; }
};

FaultCase fault_case(const FaultInfo& info, const char* phase, double magnitude,
                     const SynthShape& shape) {
  const bool head = trace_point_stage(info.shows_at) == Stage::kHead;
  std::string text = std::string(info.name) + "@" + phase + (head ? "" : ":layer=1");
  text += ":magnitude=" + std::to_string(magnitude);
  const Fault fault = parse_fault(text);
  return {fault.text(), fault, info.shows_at, head ? kLayerAfterStack : 1, shape};
}

/// Every fault on either side; those with a direction in both directions.
std::vector<FaultCase> fault_cases(const SynthShape& shape) {
  std::vector<FaultCase> cases;
  for (const FaultInfo& info : fault_catalogue()) {
    for (const char* phase : {"decode", "prefill"}) {
      cases.push_back(fault_case(info, phase, info.default_magnitude, shape));
      if (info.both_ways) cases.push_back(fault_case(info, phase, -info.default_magnitude, shape));
    }
  }
  return cases;
}
std::vector<FaultCase> fault_cases() { return fault_cases(small_shape()); }

SynthShape other_shape(std::string_view name) {
  const std::vector<NamedShape> shapes = other_shapes();
  return std::ranges::find(shapes, name, &NamedShape::name)->shape;
}

class InjectedFault : public testing::TestWithParam<FaultCase> {
 protected:
  /// A probe of the model with this fault, and what float64 says of it.
  void run(Mode mode) {
    const TestModel model(GetParam().shape);
    const TestEngine engine(model);
    const std::vector<int32_t> tokens = model.tokens(16);
    ProbeOptions options = probe_options(engine, mode);
    options.forward.faults = FaultSet({GetParam().fault});
    sink_ = run_probe(engine, options, tokens);
    expected_ = Reference(model.file()).probe(tokens, mode, FaultSet({GetParam().fault}));
  }

  const TraceRecord& row(Phase phase) const {
    return *sink_.of(phase).at({GetParam().shows_at, GetParam().layer});
  }
  const std::vector<double>& expected(Phase phase) const {
    const ReferenceRows& rows = is_decode(phase) ? expected_.decode : expected_.prefill;
    return rows.at(GetParam().shows_at, GetParam().layer);
  }

  MemorySink sink_;
  ReferenceProbe expected_;
};

TEST_P(InjectedFault, IsFirstSeenWhereTheCatalogueSays) {
  run(Mode::kBatchInvariant);
  const std::vector<RowKey> differ = differences(sink_);
  ASSERT_FALSE(differ.empty());
  EXPECT_EQ(row_name(differ.front()), row_name({GetParam().shows_at, GetParam().layer}));
}

TEST_P(InjectedFault, HasTheEffectThatFloat64Predicts) {
  for (const Mode mode : {Mode::kBatchInvariant, Mode::kAsDesigned}) {
    SCOPED_TRACE(mode_name(mode));
    run(mode);
    const double predicted = relative_l2(expected(Phase::kPrefillLast), expected(Phase::kDecode0));
    const double measured =
        relative_l2(widen(row(Phase::kPrefillLast).sample), widen(row(Phase::kDecode0).sample));
    EXPECT_EQ(std::isnan(measured), std::isnan(predicted));
    if (std::isnan(predicted)) continue;
    EXPECT_NEAR(measured, predicted, 0.05 * predicted + 5e-6);
  }
}

TEST_P(InjectedFault, LeavesTheOtherSideAsFloat64HasIt) {
  run(Mode::kAsDesigned);
  const Phase other = GetParam().fault.decode ? Phase::kPrefillLast : Phase::kDecode0;
  EXPECT_LE(relative_l2(widen(row(other).sample), expected(other)), 5e-6);
}

std::string name_of(const testing::TestParamInfo<FaultCase>& param) {
  std::string name = param.param.text;
  for (char& c : name) {
    if (c == '-') c = 'm';
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Catalogue, InjectedFault, testing::ValuesIn(fault_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(InQwen2, InjectedFault,
                         testing::ValuesIn(fault_cases(other_shape("yarn"))), name_of);
INSTANTIATE_TEST_SUITE_P(InQwen3WithAWindow, InjectedFault,
                         testing::ValuesIn(fault_cases(other_shape("window_of_some_layers"))),
                         name_of);

TEST(FaultText, DefaultsAreDecodeEveryLayerAndTheCatalogueMagnitude) {
  for (const FaultInfo& info : fault_catalogue()) {
    const Fault fault = parse_fault(info.name);
    EXPECT_EQ(fault.kind, info.kind);
    EXPECT_FALSE(fault.prefill);
    EXPECT_TRUE(fault.decode);
    EXPECT_FALSE(fault.layer.has_value());
    EXPECT_EQ(fault.magnitude, info.default_magnitude);
  }
}

TEST(FaultText, ReadsBackWhatItWrites) {
  for (const FaultCase& one : fault_cases()) {
    const Fault again = parse_fault(one.text);
    EXPECT_EQ(again.text(), one.text);
    EXPECT_EQ(again.magnitude, one.fault.magnitude);
    EXPECT_EQ(again.layer, one.fault.layer);
  }
  EXPECT_EQ(parse_fault("quant_scale@both:magnitude=1.25:layer=3").text(),
            "quant_scale@both:layer=3:magnitude=1.25");
  const char* const onset = "race@decode:layer=2:pos=97:step=3:length=256:magnitude=1";
  EXPECT_EQ(parse_fault("race:length=256,step=3,pos=97,magnitude=1,layer=2").text(), onset);
  EXPECT_EQ(parse_fault(onset).text(), onset);
}

TEST(FaultText, RefusesWhatMeansNothingAndSaysWhatWould) {
  const auto refusal = [](std::string_view text) -> std::string {
    try {
      return "taken as " + parse_fault(text).text();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
  };
  EXPECT_NE(refusal("rope").find("rope_theta"), std::string::npos);
  EXPECT_NE(refusal("").find("rope_theta"), std::string::npos);
  EXPECT_NE(refusal("race@sometimes").find("prefill, decode or both"), std::string::npos);
  EXPECT_NE(refusal("race@").find("prefill, decode or both"), std::string::npos);
  EXPECT_NE(refusal("race:layer=x").find("not a number"), std::string::npos);
  EXPECT_NE(refusal("race:layer=").find("not a number"), std::string::npos);
  EXPECT_NE(refusal("race:layer=-1").find("layers start at 0"), std::string::npos);
  EXPECT_NE(refusal("race:magnitude=nan").find("finite"), std::string::npos);
  EXPECT_NE(refusal("race:magnitude=1.5").find("whole number"), std::string::npos);
  EXPECT_NE(refusal("race:").find("neither"), std::string::npos);
  EXPECT_NE(refusal("race:depth=1").find("neither"), std::string::npos);
  EXPECT_NE(refusal("race@decode@both").find("decode or both"), std::string::npos);
  EXPECT_NE(refusal("kv_wrong_slot:magnitude=2").find("spare row"), std::string::npos);
  EXPECT_NE(refusal("rope_pos_off_by_one:magnitude=0").find("1 or -1"), std::string::npos);
  EXPECT_NE(refusal("rope_theta:magnitude=0").find("above 0"), std::string::npos);
  EXPECT_NE(refusal("lm_head_route:layer=0").find("no layer"), std::string::npos);
  EXPECT_NE(refusal("race:pos=-1").find("positions start at 0"), std::string::npos);
  EXPECT_NE(refusal("race:step=0").find("decode steps start at 1"), std::string::npos);
  EXPECT_NE(refusal("race:length=0").find("start at 1"), std::string::npos);
  EXPECT_NE(refusal("race:pos=1.5").find("not a number"), std::string::npos);
  EXPECT_NE(refusal("race@prefill:step=2").find("@decode"), std::string::npos);
  EXPECT_NE(refusal("race@both:step=2").find("pos=N"), std::string::npos);
}

TEST(FaultSet, IsInForceFromItsOnsetOn) {
  const auto in_force = [](const char* text, const Moment& at) {
    return FaultSet({parse_fault(text)}).find(FaultKind::kRace, true, 0, at).has_value();
  };
  const Moment at{.pos = 9, .step = 3, .n_prompt = 7};
  for (const char* begun : {"race:pos=9", "race:step=3", "race:length=7", "race:pos=8,step=2"}) {
    EXPECT_TRUE(in_force(begun, at)) << begun;
  }
  for (const char* later : {"race:pos=10", "race:step=4", "race:length=8", "race:pos=8,step=4"}) {
    EXPECT_FALSE(in_force(later, at)) << later;
  }
}

TEST(FaultSet, ABatchOfPrefillEndsWhereAFaultBegins) {
  const FaultSet faults({parse_fault("race@prefill:pos=6"), parse_fault("rope_theta@both:pos=4"),
                         parse_fault("quant_scale@decode:pos=2")});
  EXPECT_EQ(faults.end_of_batch(0, 10), 4);
  EXPECT_EQ(faults.end_of_batch(4, 10), 6);
  EXPECT_EQ(faults.end_of_batch(6, 10), 10);
  EXPECT_EQ(faults.end_of_batch(0, 3), 3);
}

/// A fault that begins late: where it is seen first.
struct LateFault {
  const char* text;
  TracePoint shows_at;
  int64_t pos;
};

class LateFaultTest : public testing::TestWithParam<LateFault> {};

TEST_P(LateFaultTest, IsSeenFirstAtItsTensorLayerAndPosition) {
  const TestModel model(small_shape());
  const TestEngine engine(model);
  ProbeOptions options = probe_options(engine, Mode::kBatchInvariant);
  options.decode_steps = 4;
  options.forward.faults = FaultSet({parse_fault(GetParam().text)});
  const MemorySink sink = run_probe(engine, options, model.tokens(6));
  for (int64_t pos = 5; pos < GetParam().pos; ++pos) {
    EXPECT_TRUE(differences(sink, pos).empty()) << pos;
  }
  const std::vector<RowKey> differ = differences(sink, GetParam().pos);
  ASSERT_FALSE(differ.empty());
  EXPECT_EQ(row_name(differ.front()), row_name({GetParam().shows_at, 1}));
}

INSTANTIATE_TEST_SUITE_P(
    Onsets, LateFaultTest,
    testing::Values(LateFault{"rope_pos_off_by_one:layer=1,magnitude=-1,step=3",
                              TracePoint::kQPostRope, 7},
                    LateFault{"kv_wrong_slot:layer=1,step=3", TracePoint::kKCache, 7},
                    LateFault{"stale_kv_tail:layer=1,step=4", TracePoint::kKCache, 8},
                    LateFault{"stale_kv_tail@prefill:layer=1,pos=8", TracePoint::kKCache, 9},
                    LateFault{"rope_theta@prefill:layer=1,pos=8", TracePoint::kQPostRope, 8},
                    LateFault{"race:layer=1,pos=9", TracePoint::kMlpOut, 9},
                    LateFault{"mask_off_by_one:layer=1,length=6,step=2", TracePoint::kAttnProbs, 6},
                    LateFault{"k_cache_spoiled:layer=1,step=3", TracePoint::kKCacheRows, 7},
                    LateFault{"k_cache_spoiled@prefill:layer=1", TracePoint::kKCacheRows, 5}),
    [](const auto& param) { return "Case" + std::to_string(param.index); });

}  // namespace
}  // namespace greta
