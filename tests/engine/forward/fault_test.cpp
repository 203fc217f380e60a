#include "engine/forward/fault.h"

#include <gtest/gtest.h>

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

  friend void PrintTo(const FaultCase& one, std::ostream* out) { *out << one.text; }
};

FaultCase fault_case(const FaultInfo& info, const char* phase, double magnitude) {
  const bool head = trace_point_stage(info.shows_at) == Stage::kHead;
  std::string text = std::string(info.name) + "@" + phase + (head ? "" : ":layer=1");
  text += ":magnitude=" + std::to_string(magnitude);
  const Fault fault = parse_fault(text);
  return {fault.text(), fault, info.shows_at, head ? kLayerAfterStack : 1};
}

/// Every fault on either side; those with a direction in both directions.
std::vector<FaultCase> fault_cases() {
  std::vector<FaultCase> cases;
  for (const FaultInfo& info : fault_catalogue()) {
    for (const char* phase : {"decode", "prefill"}) {
      cases.push_back(fault_case(info, phase, info.default_magnitude));
      if (info.both_ways) cases.push_back(fault_case(info, phase, -info.default_magnitude));
    }
  }
  return cases;
}

class InjectedFault : public testing::TestWithParam<FaultCase> {
 protected:
  /// A probe of the model with this fault, and what float64 says of it.
  void run(Mode mode) {
    const TestModel model(small_shape());
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

INSTANTIATE_TEST_SUITE_P(Catalogue, InjectedFault, testing::ValuesIn(fault_cases()),
                         [](const auto& param) {
                           std::string name = param.param.text;
                           for (char& c : name) {
                             if (c == '-') c = 'm';
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           }
                           return name;
                         });

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
}

TEST(FaultSet, IsInForceOnItsPhaseAndLayerOnly) {
  const FaultSet faults(
      {parse_fault("race@decode:layer=2:magnitude=3"), parse_fault("rope_pairing@both")});
  EXPECT_EQ(faults.find(FaultKind::kRace, true, 2), 3);
  EXPECT_FALSE(faults.find(FaultKind::kRace, false, 2));
  EXPECT_FALSE(faults.find(FaultKind::kRace, true, 1));
  EXPECT_TRUE(faults.find(FaultKind::kRopePairing, true, 0));
  EXPECT_TRUE(faults.find(FaultKind::kRopePairing, false, 7));
  EXPECT_FALSE(faults.find(FaultKind::kRopeTheta, true, 0));
}

}  // namespace
}  // namespace greta
