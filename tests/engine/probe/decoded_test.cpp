// The tokens that a probe decodes after its prompt: both sides of each, in every mode.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/engine/forward/reference_f64.h"
#include "tests/engine/probe/probe_fixture.h"

namespace greta {
namespace {

constexpr int64_t kPrompt = 6, kSteps = 4, kEnd = kPrompt + kSteps;

class DecodedTokens : public testing::TestWithParam<Mode> {
 protected:
  ProbeOptions options() const {
    ProbeOptions with = probe_options(engine_, GetParam());
    with.decode_steps = kSteps;
    return with;
  }
  MemorySink run(const ProbeOptions& with) const {
    return run_probe(engine_, with, model_.tokens(kPrompt));
  }
  bool same(const MemorySink& sink, int64_t pos, RowKey key) const {
    return same_bits(sink.of(Phase::kPrefillLast, pos).at(key)->fingerprint,
                     sink.of(Phase::kDecode, pos).at(key)->fingerprint);
  }

  TestModel model_{small_shape()};
  TestEngine engine_{model_};
};

TEST_P(DecodedTokens, HaveBothSidesOfEveryRowOnce) {
  const MemorySink sink = run(options());
  std::set<std::tuple<bool, int64_t, RowKey>> rows;
  std::vector<int32_t> tokens = model_.tokens(kPrompt);
  for (const ReadoutRecord& readout : sink.readouts) {
    if (readout.phase == Phase::kPrefillLast && readout.pos_id + 1 < kEnd) {
      tokens.push_back(readout.top1_id);
    }
  }
  ASSERT_EQ(tokens.size(), static_cast<size_t>(kEnd));
  for (const TraceRecord& row : sink.records) {
    const RowKey key{row.point, row.layer};
    EXPECT_TRUE(rows.emplace(is_decode(row.phase), row.pos_id, key).second) << row_name(key);
    EXPECT_EQ(row.token_id, tokens.at(static_cast<size_t>(row.pos_id)));
    EXPECT_EQ(row.step, is_decode(row.phase) ? row.pos_id - kPrompt + 2 : 0);
    EXPECT_EQ(row.phase == Phase::kDecode, is_decode(row.phase) && row.pos_id >= kPrompt);
    EXPECT_TRUE(is_finite(row.fingerprint)) << row_name(key);
  }
  EXPECT_EQ(rows.size(), 2 * static_cast<size_t>(1 + kSteps) * (2u + 3u * 21u + 6u));
  EXPECT_TRUE(sink.attributes.empty());
}

TEST_P(DecodedTokens, HaveAReadoutOnEachSide) {
  const MemorySink sink = run(options());
  std::multiset<std::pair<bool, int64_t>> places, expected;
  for (const ReadoutRecord& r : sink.readouts) places.emplace(is_decode(r.phase), r.pos_id);
  for (int64_t pos = kPrompt - 1; pos < kEnd; ++pos) {
    for (const bool decode : {false, true}) expected.emplace(decode, pos);
  }
  EXPECT_EQ(places, expected);
  for (const ReadoutRecord& r : sink.readouts) {
    const auto rows = sink.of(r.phase, r.pos_id);
    EXPECT_EQ(rows.at({TracePoint::kLogitsTop1, kLayerAfterStack})->sample,
              std::vector<float>{r.top1_logit});
  }
}

TEST_P(DecodedTokens, AreWhatTheModeSays) {
  const MemorySink sink = run(options());
  bool own_kv_differs = false;
  for (int64_t pos = kPrompt; pos < kEnd; ++pos) {
    const auto prefill = sink.of(Phase::kPrefillLast, pos);
    const auto decode = sink.of(Phase::kDecode, pos);
    for (const auto& [key, row] : prefill) {
      const double apart = relative_l2(widen(row->sample), widen(decode.at(key)->sample));
      EXPECT_LE(apart, GetParam() == Mode::kBatchInvariant ? 0 : 5e-6) << row_name(key);
    }
    for (int layer = 0; layer < 3; ++layer) {
      if (GetParam() == Mode::kKvAligned) {
        EXPECT_TRUE(same(sink, pos, {TracePoint::kKCache, layer}));
        EXPECT_TRUE(same(sink, pos, {TracePoint::kVCache, layer}));
      }
      own_kv_differs |= !same(sink, pos, {TracePoint::kKPostRope, layer});
    }
    if (GetParam() != Mode::kBatchInvariant) continue;
    EXPECT_TRUE(differences(sink, pos).empty());
  }
  EXPECT_EQ(own_kv_differs, GetParam() != Mode::kBatchInvariant);
}

TEST_P(DecodedTokens, AreTracedAlikeWhenPrefillTakesSeveralBatches) {
  ProbeOptions with = options();
  const MemorySink whole = run(with);
  with.forward.max_batch = 4;  // the third begins among the tokens that were decoded
  const MemorySink pieces = run(with);
  ASSERT_EQ(pieces.records.size(), whole.records.size());
  for (int64_t pos = kPrompt; pos < kEnd; ++pos) {
    const auto a = whole.of(Phase::kPrefillLast, pos), b = pieces.of(Phase::kPrefillLast, pos);
    for (const auto& [key, row] : a) {
      EXPECT_LE(relative_l2(widen(row->sample), widen(b.at(key)->sample)), 5e-6) << row_name(key);
    }
  }
}

TEST_P(DecodedTokens, PositionsOfThePromptAreNotTracedAgain) {
  ProbeOptions with = options();
  with.selection.phases.push_back(Phase::kPrefill);
  with.selection.layers = {1};
  with.forward.max_batch = 4;
  std::multiset<std::pair<bool, int64_t>> places;
  for (const TraceRecord& row : run(with).records) {
    if (row.point == TracePoint::kAttnOut) places.emplace(is_decode(row.phase), row.pos_id);
  }
  for (int64_t pos = 0; pos < kEnd; ++pos) {
    EXPECT_EQ(places.count({false, pos}), 1u) << pos;
    EXPECT_EQ(places.count({true, pos}), pos < kPrompt - 1 ? 0u : 1u) << pos;
  }
}

TEST_P(DecodedTokens, AreVerifiedOnlyWhereBothSidesAreTraced) {
  ProbeOptions with = options();
  with.selection.phases = {Phase::kPrefillLast, Phase::kDecode0};
  const MemorySink prompt_only = run(with);
  for (const TraceRecord& row : prompt_only.records) EXPECT_EQ(row.pos_id, kPrompt - 1);
  with.selection.phases = {Phase::kDecode};
  const MemorySink decode_only = run(with);
  for (const TraceRecord& row : decode_only.records) EXPECT_EQ(row.phase, Phase::kDecode);
  EXPECT_EQ(decode_only.records.size(), static_cast<size_t>(kSteps) * (2u + 3u * 21u + 6u));
}

TEST_P(DecodedTokens, APromptMayHaveItsOwnNumberOfThem) {
  ProbeOptions with = options();
  MemorySink sink;
  Probe probe(engine_.model, engine_.weights, *engine_.backend, kPrompt + 7, with);
  const auto run = [&](std::optional<int64_t> n) {
    sink.records.clear();
    probe.run({.name = "p", .text_sha256 = "", .tokens = model_.tokens(kPrompt), .decode_steps = n},
              sink);
    int64_t last = 0;
    for (const TraceRecord& row : sink.records) last = std::max(last, row.pos_id);
    return last;
  };
  EXPECT_EQ(run({}), kEnd - 1);
  EXPECT_EQ(run(0), kPrompt - 1);
  EXPECT_EQ(run(7), kPrompt + 6);
}

// All logits are NaN from decode step 3 on: what was traced until then is worth keeping.
TEST_P(DecodedTokens, EndWhereNoLogitIsANumber) {
  ProbeOptions with = options();
  with.forward.faults = FaultSet({parse_fault("softmax_no_max@decode:step=3")});
  const MemorySink sink = run(with);
  ASSERT_EQ(sink.attributes.size(), 1u);
  EXPECT_EQ(sink.attributes[0].first, "decode_ended");
  EXPECT_EQ(sink.attributes[0].second, "p after 2 of 4 tokens: no logit is a number above -inf");
  EXPECT_EQ(sink.of(Phase::kPrefillLast, kPrompt + 1).size(), 2u + 3u * 21u + 6u);
  const auto decode = sink.of(Phase::kDecode, kPrompt + 1);
  EXPECT_GT(decode.at({TracePoint::kLogits, kLayerAfterStack})->fingerprint.nan, 0u);
  EXPECT_TRUE(sink.of(Phase::kDecode, kPrompt + 2).empty());
  for (const ReadoutRecord& r : sink.readouts) {
    const bool broken = is_decode(r.phase) && r.pos_id == kPrompt + 1;
    EXPECT_EQ(r.top1_id < 0, broken);
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, DecodedTokens,
                         testing::Values(Mode::kAsDesigned, Mode::kKvAligned,
                                         Mode::kBatchInvariant),
                         [](const auto& param) { return std::string(mode_name(param.param)); });

/// Logits that nobody asked for are looked at all the same.
TEST(UntracedLogits, AreWrittenWhereTheyAreNotFinite) {
  const TestModel model(small_shape());
  const TestEngine engine(model);
  ProbeOptions with = probe_options(engine, Mode::kBatchInvariant);
  with.selection.layers = {0};
  with.selection.points = {TracePoint::kQPreRope};
  with.decode_steps = 2;
  const auto logits = [&] {
    std::vector<std::pair<Phase, int64_t>> found;
    for (const TraceRecord& row : run_probe(engine, with, model.tokens(5)).records) {
      if (row.point == TracePoint::kQPreRope) continue;
      EXPECT_EQ(row.point, TracePoint::kLogits);
      EXPECT_EQ(row.fingerprint.nan, static_cast<uint64_t>(model.config().vocab));
      found.emplace_back(row.phase, row.pos_id);
    }
    return found;
  };
  EXPECT_TRUE(logits().empty());
  with.forward.faults = FaultSet({parse_fault("softmax_no_max@decode:layer=2,step=2")});
  using Found = std::vector<std::pair<Phase, int64_t>>;
  EXPECT_EQ(logits(), (Found{{Phase::kDecode, 5}}));
  with.forward.faults = FaultSet({parse_fault("softmax_no_max@prefill:layer=2")});
  with.selection.phases.push_back(Phase::kPrefill);
  EXPECT_GE(logits().size(), 5u);  // every position of the prompt, at least
}

TEST(HeadErrors, AreThoseOfRoundingOnBothSidesOfEveryToken) {
  const TestModel model(small_shape());
  const TestEngine engine(model);
  ProbeOptions with = probe_options(engine, Mode::kAsDesigned);
  with.rms_verify = with.cpu_probe = true;
  with.decode_steps = 2;
  const MemorySink sink = run_probe(engine, with, model.tokens(5));
  EXPECT_EQ(sink.readouts.size(), 6u);
  for (const ReadoutRecord& readout : sink.readouts) {
    ASSERT_TRUE(readout.norm_error && readout.logits_error);
    EXPECT_LT(*readout.norm_error, 1e-6);
    EXPECT_GT(*readout.logits_error, 0);
    EXPECT_LT(*readout.logits_error, 2e-6);
  }
  with.cpu_probe = false;
  const MemorySink norm_only = run_probe(engine, with, model.tokens(5));
  EXPECT_TRUE(norm_only.readouts.at(0).norm_error);
  EXPECT_FALSE(norm_only.readouts.at(0).logits_error);
}

TEST(HeadErrors, AreNotFiniteWhenTheHeadIsNot) {
  const TestModel model(small_shape());
  const TestEngine engine(model);
  ProbeOptions with = probe_options(engine, Mode::kBatchInvariant);
  with.rms_verify = with.cpu_probe = true;
  with.forward.faults = FaultSet({parse_fault("softmax_no_max@decode")});
  const MemorySink sink = run_probe(engine, with, model.tokens(5));
  EXPECT_LT(sink.readouts.at(0).norm_error, 1e-6);
  EXPECT_EQ(sink.readouts.at(1).norm_error, 1e30);
  EXPECT_EQ(sink.readouts.at(1).logits_error, 1e30);
}

TEST(HeadErrors, AreTheDistanceOverTheLargerNorm) {
  const auto error = [](std::vector<float> given, std::vector<double> expected) {
    return relative_error(given, expected);
  };
  EXPECT_EQ(error({0, 0}, {0, 0}), 0);
  EXPECT_EQ(error({3, 4}, {3, 4}), 0);
  EXPECT_EQ(error({0, 0}, {3, 4}), 1);
  EXPECT_EQ(error({6, 8}, {3, 4}), 0.5);
  EXPECT_EQ(error({NAN, 4}, {3, 4}), kNotFinite);
  EXPECT_EQ(error({INFINITY, 4}, {3, 4}), kNotFinite);
  EXPECT_EQ(error({3, 4}, {3, INFINITY}), kNotFinite);
}

}  // namespace
}  // namespace greta
