#include "tests/engine/probe/exact_pairs.h"

#include <string>
#include <vector>

#include "kernels/cpu/row_difference.h"
#include "tests/engine/forward/tampered_backend.h"

namespace greta {
namespace {

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
