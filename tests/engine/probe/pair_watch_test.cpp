#include "engine/probe/pair_watch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/row_difference.h"
#include "tests/engine/forward/tampered_backend.h"
#include "tests/engine/probe/probe_fixture.h"

// A prompt with a pair beyond rounding runs again, and the rows of that place say whether it
// changes.

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

class ExactPairs : public testing::TestWithParam<Mode> {
 protected:
  ProbeOptions options() const {
    ProbeOptions with = probe_options(engine_, GetParam());
    with.decode_steps = 3;
    return with;
  }

  TestModel model_{small_shape()};
  TestEngine engine_{model_};
};

TEST_P(ExactPairs, EveryPairThatDiffersHasItsDistance) {
  const MemorySink sink = run_probe(engine_, options(), model_.tokens(6));
  const int64_t n = expect_exact(sink);
  EXPECT_EQ(n > 40, GetParam() != Mode::kBatchInvariant) << n;
  EXPECT_TRUE(sink.attributes.empty());
}

TEST_P(ExactPairs, WithoutMemoryForThemNothingIsComparedAndNothingElseChanges) {
  ProbeOptions without = options();
  without.kept_bytes = 0;
  const MemorySink all = run_probe(engine_, options(), model_.tokens(6));
  const MemorySink none = run_probe(engine_, without, model_.tokens(6));
  ASSERT_EQ(all.records.size(), none.records.size());
  for (size_t i = 0; i < all.records.size(); ++i) {
    EXPECT_EQ(none.records[i].difference, nullptr);
    EXPECT_TRUE(same_bits(all.records[i].fingerprint, none.records[i].fingerprint));
    EXPECT_EQ(all.records[i].sample, none.records[i].sample);
  }
}

TEST_P(ExactPairs, BeyondTheLimitTheRunSaysWhatWasNotCompared) {
  ProbeOptions with = options();
  with.kept_bytes = 8 << 10;  // a few rows
  const MemorySink sink = run_probe(engine_, with, model_.tokens(6));
  int64_t compared = 0;
  for (const TraceRecord& record : sink.records) compared += record.difference ? 1 : 0;
  if (GetParam() != Mode::kBatchInvariant) {
    EXPECT_GT(compared, 0);
  }
  EXPECT_LT(compared, 30);
  ASSERT_EQ(sink.attributes.size(), 1u);
  EXPECT_EQ(sink.attributes[0].first, "not_compared_exactly");
  EXPECT_TRUE(sink.attributes[0].second.starts_with("p: ")) << sink.attributes[0].second;
}

INSTANTIATE_TEST_SUITE_P(Modes, ExactPairs,
                         testing::Values(Mode::kAsDesigned, Mode::kKvAligned,
                                         Mode::kBatchInvariant),
                         [](const auto& mode) {
                           std::string name;
                           for (char c : std::string(mode_name(mode.param)))
                             if (c != '_') name += c;
                           return name;
                         });

/// A probe of one prompt whose decode has `change` made to the attention output of layer 1.
MemorySink changed_probe(const std::function<void(std::span<float>)>& change) {
  const TestModel model(small_shape());
  auto backend = std::make_unique<TamperedBackend>(make_cpu_backend(2));
  TamperedBackend* const tampered = backend.get();
  const TestEngine engine(model, std::move(backend));
  int call = 0;
  tampered->tamper = [&](std::string_view operation, float* out, int64_t n,
                         const std::function<void()>& compute) {
    compute();
    // three layers of prefill, then of decode
    if (operation == "attention" && call++ == 4) change({out, static_cast<size_t>(n)});
  };
  return run_probe(engine, probe_options(engine, Mode::kBatchInvariant), model.tokens(6));
}

const PairDifference& attn_out(const MemorySink& sink) {
  const auto rows = sink.of(Phase::kDecode0);
  const auto& difference = rows.at({TracePoint::kAttnOut, 1})->difference;
  if (!difference) throw std::logic_error("attn_out does not differ");
  return *difference;
}

TEST(ExactPair, NamesTheHeadThatDiffers) {
  const MemorySink sink = changed_probe([](std::span<float> row) {
    for (size_t i = 5 * 32; i < 6 * 32; ++i) row[i] += 1;
  });
  EXPECT_EQ(expect_exact(sink), static_cast<int64_t>(differences(sink).size()));
  const PairDifference& d = attn_out(sink);
  EXPECT_EQ(d.heads, 8);
  EXPECT_EQ(d.shares(), (std::vector<double>{0, 0, 0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(d.values.first, 160);
  EXPECT_EQ(d.values.last, 191);
}

TEST(ExactPair, SeesOneValueAndOneFloatOfIt) {
  const MemorySink sink =
      changed_probe([](std::span<float> row) { row[17] = std::nextafter(row[17], INFINITY); });
  const PairDifference& d = attn_out(sink);
  EXPECT_EQ(d.values.differing, 1);
  EXPECT_EQ(d.values.max_ulp, 1);
  EXPECT_EQ(d.values.max_abs_at, 17);
  EXPECT_GT(*d.rel_l2(), 0);
}

TEST(ExactPair, OfValuesThatAreNotFiniteHasNoDistance) {
  const MemorySink sink = changed_probe([](std::span<float> row) {
    row[3] = std::numeric_limits<float>::quiet_NaN();
    row[200] += 1;
  });
  const PairDifference& d = attn_out(sink);
  EXPECT_FALSE(d.rel_l2().has_value());
  EXPECT_EQ(d.values.differing, 2);
  EXPECT_EQ(d.values.first, 3);
  EXPECT_EQ(d.values.last, 200);
}

TEST(KeptRowsTest, ARowIsKeptOnceAPlaceAndForgottenWhenAllAreCompared) {
  const auto backend = make_cpu_backend(1);
  KeptRows kept(*backend, 1 << 20);
  EXPECT_EQ(kept.find({5, 1, TracePoint::kAttnOut}), KeptRows::kNone);
  const size_t a = kept.add({5, 1, TracePoint::kAttnOut}, false, 100, nullptr);
  const size_t b = kept.add({5, -1, TracePoint::kAttnOut}, false, 100, kept.row(a).data);
  const size_t c = kept.add({6, 1, TracePoint::kAttnOut}, true, 3, nullptr);
  EXPECT_EQ(kept.find({5, 1, TracePoint::kAttnOut}), a);
  EXPECT_EQ(kept.find({5, -1, TracePoint::kAttnOut}), b);
  EXPECT_EQ(kept.find({6, 1, TracePoint::kAttnOut}), c);
  EXPECT_EQ(kept.row(a).data, kept.row(b).data);
  float* const data = kept.row(a).data;
  EXPECT_GE(kept.row(c).data, data + 100);
  for (size_t number : {a, b, c}) {
    kept.clear_compared();
    EXPECT_NE(kept.find({6, 1, TracePoint::kAttnOut}), KeptRows::kNone);
    EXPECT_EQ(kept.compare(number).n, number == c ? 3 : 100);
  }
  kept.clear_compared();
  EXPECT_EQ(kept.find({6, 1, TracePoint::kAttnOut}), KeptRows::kNone);
  const size_t again = kept.add({9, 1, TracePoint::kAttnOut}, false, 100, nullptr);
  EXPECT_EQ(kept.row(again).data, data) << "its memory is used again";
}

TEST(KeptRowsTest, WhatDoesNotFitIsCountedAndSmallerRowsStillFit) {
  const auto backend = make_cpu_backend(1);
  KeptRows kept(*backend, 1000 * sizeof(float));
  EXPECT_EQ(kept.add({0, 0, TracePoint::kQPreRope}, false, 1001, nullptr), KeptRows::kNone);
  EXPECT_NE(kept.add({1, 0, TracePoint::kQPreRope}, false, 900, nullptr), KeptRows::kNone);
  EXPECT_EQ(kept.n_without_room(), 1);
  KeptRows none(*backend, 0);
  EXPECT_FALSE(none.keeps_any());
}

TEST(RowSegmentsTest, AreHeadsWhereThereAreSome) {
  const auto n_of = [](int64_t heads, bool interleaved, int64_t n) {
    const RowSegments s = segments_of({heads, interleaved}, n);
    return std::tuple(s.n, s.period, are_heads({heads, interleaved}, n));
  };
  EXPECT_EQ(n_of(8, false, 256), std::tuple(8, 0, true));
  EXPECT_EQ(n_of(64, false, 4096), std::tuple(32, 0, true));
  EXPECT_EQ(n_of(40, false, 5120), std::tuple(20, 0, true));
  EXPECT_EQ(n_of(71, false, 71 * 64), std::tuple(32, 0, false)) << "a prime number of heads";
  EXPECT_EQ(n_of(12, true, 12 * 7), std::tuple(12, 12, true));
  EXPECT_EQ(n_of(1, false, 64), std::tuple(32, 0, false));
  EXPECT_EQ(n_of(0, false, 5), std::tuple(5, 0, false));
  EXPECT_EQ(n_of(0, false, 0), std::tuple(1, 0, false));
  EXPECT_EQ(heads_of(TracePoint::kKCache, 8, 2).heads, 2);
  EXPECT_EQ(heads_of(TracePoint::kAttnProbs, 8, 2).heads, 8);
  EXPECT_TRUE(heads_of(TracePoint::kAttnProbs, 8, 2).interleaved);
  EXPECT_EQ(heads_of(TracePoint::kMlpOut, 8, 2).heads, 0);
}

}  // namespace

}  // namespace greta
