// A prompt with a pair beyond rounding runs again, and the rows of that place say whether it
// changes.

#include "engine/probe/pair_watch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/engine/probe/probe_fixture.h"

namespace greta {
namespace {

TraceRecord row(TracePoint point, Phase phase, std::vector<float> values, int layer = 0,
                int64_t pos = 3) {
  TraceRecord record;
  record.point = point;
  record.layer = layer;
  record.phase = phase;
  record.pos_id = pos;
  record.fingerprint = fingerprint(values);
  return record;
}

TraceRecord prefilled(TracePoint point, std::vector<float> values, int layer = 0, int64_t pos = 3) {
  return row(point, Phase::kPrefillLast, std::move(values), layer, pos);
}

TraceRecord decoded(TracePoint point, std::vector<float> values, int layer = 0, int64_t pos = 3) {
  return row(point, Phase::kDecode, std::move(values), layer, pos);
}

PairWatch watch(double tolerance = 1e-4) {
  return PairWatch(std::vector<double>(kTracePoints, tolerance));
}

TEST(PairWatch, KnowsThePairThatIsBeyondItsTolerance) {
  PairWatch pairs = watch();
  const std::vector<TraceRecord> rounding{prefilled(TracePoint::kWoOut, {1, 2}),
                                          decoded(TracePoint::kWoOut, {1, 2.00001f})};
  pairs.look(rounding);
  EXPECT_FALSE(pairs.first());
  const std::vector<TraceRecord> beyond{decoded(TracePoint::kMlpOut, {1, 2.1f}),
                                        prefilled(TracePoint::kMlpOut, {1, 2})};
  pairs.look(beyond);
  EXPECT_EQ(pairs.first(), (PairPlace{TracePoint::kMlpOut, 0, 3}));
  pairs.begin();
  EXPECT_FALSE(pairs.first());
}

TEST(PairWatch, ToleratesNoBitWhereNoneMayDiffer) {
  PairWatch pairs = watch(0);
  const std::vector<TraceRecord> rows{prefilled(TracePoint::kWoOut, {1, 2}),
                                      decoded(TracePoint::kWoOut, {1, std::nextafter(2.0f, 3.0f)})};
  pairs.look(rows);
  EXPECT_TRUE(pairs.first());
}

TEST(PairWatch, ValuesThatAreNotFiniteAreBeyondAnyTolerance) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  PairWatch pairs = watch(1e9);
  const std::vector<TraceRecord> rows{prefilled(TracePoint::kWoOut, {1, nan}),
                                      decoded(TracePoint::kWoOut, {1, nan})};
  pairs.look(rows);
  EXPECT_TRUE(pairs.first()) << "equal, and still a failure";
}

TEST(PairWatch, KeepsTheFirstInForwardOrderWhateverComesFirst) {
  PairWatch pairs = watch();
  const auto fails = [&](TracePoint point, int layer, int64_t pos) {
    const std::vector<TraceRecord> rows{prefilled(point, {1, 2}, layer, pos),
                                        decoded(point, {3, 2}, layer, pos)};
    pairs.look(rows);
  };
  fails(TracePoint::kLogits, kLayerAfterStack, 2);
  EXPECT_EQ(pairs.first()->point, TracePoint::kLogits);
  fails(TracePoint::kQPreRope, 2, 9);
  fails(TracePoint::kMlpOut, 2, 1);
  fails(TracePoint::kQPreRope, 2, 7);
  fails(TracePoint::kQPreRope, 2, 8);
  EXPECT_EQ(pairs.first(), (PairPlace{TracePoint::kQPreRope, 2, 7}));
}

TEST(PairWatch, HasNoPairsOfRowsBeforeTheLastNorWithoutTolerances) {
  PairWatch pairs = watch();
  const std::vector<TraceRecord> rows{row(TracePoint::kWoOut, Phase::kPrefill, {1, 2}),
                                      decoded(TracePoint::kWoOut, {3, 2})};
  pairs.look(rows);
  EXPECT_FALSE(pairs.first());
  PairWatch off;
  const std::vector<TraceRecord> differ{prefilled(TracePoint::kWoOut, {1, 2}),
                                        decoded(TracePoint::kWoOut, {3, 2})};
  off.look(differ);
  EXPECT_FALSE(off.first());
}

/// A probe that repeats what fails.
class RepeatTest : public testing::Test {
 protected:
  MemorySink run(Mode mode, std::vector<Fault> faults, int64_t repeats = 2) {
    ProbeOptions options{.forward = engine_.options(mode, std::move(faults)), .selection = {}};
    options.decode_steps = 2;
    options.repeats = repeats;
    MemorySink sink;
    Probe probe(engine_.model, engine_.weights, *engine_.backend, 9, options);
    probe.repeat_beyond(std::vector<double>(kTracePoints, 1e-4));
    probe.run({.name = "p", .text_sha256 = "", .tokens = model_.tokens(7)}, sink);
    return sink;
  }

  static std::vector<TraceRecord> repeats_of(const MemorySink& sink) {
    std::vector<TraceRecord> rows;
    for (const TraceRecord& row : sink.records) {
      if (row.phase >= Phase::kRepeatPrefill) rows.push_back(row);
    }
    return rows;
  }

  TestModel model_{small_shape()};
  TestEngine engine_{model_, 1};
};

TEST_F(RepeatTest, APromptThatPassesDoesNotRunAgain) {
  for (const Mode mode : {Mode::kAsDesigned, Mode::kKvAligned, Mode::kBatchInvariant}) {
    EXPECT_TRUE(repeats_of(run(mode, {})).empty()) << mode_name(mode);
  }
}

TEST_F(RepeatTest, AWrongNumberComesOutAlikeEveryTime) {
  const MemorySink sink = run(Mode::kAsDesigned, {parse_fault("rope_theta@decode:layer=1")});
  const std::vector<TraceRecord> repeats = repeats_of(sink);
  ASSERT_EQ(repeats.size(), 4);  // two of either side
  const RowKey place{TracePoint::kQPostRope, 1};
  for (const TraceRecord& row : repeats) {
    EXPECT_EQ(RowKey(row.point, row.layer), place);
    EXPECT_EQ(row.pos_id, 6);
    const Phase first = is_decode(row.phase) ? Phase::kDecode0 : Phase::kPrefillLast;
    EXPECT_TRUE(same_bits(row.fingerprint, sink.of(first, 6).at(place)->fingerprint));
  }
  EXPECT_EQ(repeats.front().step, 1);
  EXPECT_EQ(repeats.back().step, 2);
  EXPECT_EQ(sink.readouts.size(), run(Mode::kAsDesigned, {}).readouts.size());
}

TEST_F(RepeatTest, ARaceComesOutOtherwise) {
  const MemorySink sink = run(Mode::kBatchInvariant, {parse_fault("race@decode:layer=2")});
  const RowKey place{TracePoint::kMlpOut, 2};
  int changed = 0;
  for (const TraceRecord& row : repeats_of(sink)) {
    EXPECT_EQ(RowKey(row.point, row.layer), place);
    const Phase first = is_decode(row.phase) ? Phase::kDecode0 : Phase::kPrefillLast;
    const bool same = same_bits(row.fingerprint, sink.of(first, 6).at(place)->fingerprint);
    EXPECT_EQ(same, !is_decode(row.phase));
    changed += !same;
  }
  EXPECT_EQ(changed, 2);
}

TEST_F(RepeatTest, RunsAsOftenAsAsked) {
  const std::vector<Fault> fault{parse_fault("rope_theta@decode:layer=1")};
  EXPECT_TRUE(repeats_of(run(Mode::kAsDesigned, fault, 0)).empty());
  EXPECT_EQ(repeats_of(run(Mode::kAsDesigned, fault, 3)).size(), 6);
}

}  // namespace
}  // namespace greta
