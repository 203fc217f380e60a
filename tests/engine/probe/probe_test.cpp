#include "engine/probe/probe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "engine/probe/generate.h"
#include "tests/engine/engine_fixture.h"
#include "tests/engine/forward/reference_f64.h"
#include "tests/engine/forward/tampered_backend.h"
#include "tests/engine/probe/probe_fixture.h"

// Kernels that leave out a result or change a bit of it: the probe must show where.

namespace greta {
namespace {

double distance(const TraceRecord& a, const TraceRecord& b) {
  return relative_l2(widen(a.sample), widen(b.sample));
}

std::set<std::tuple<bool, int, TracePoint>> planned(const MemorySink& sink) {
  std::set<std::tuple<bool, int, TracePoint>> rows;
  for (const PlannedRow& row : sink.prompts.at(0).plan) {
    EXPECT_TRUE(rows.emplace(row.decode, row.layer, row.point).second) << "planned twice";
  }
  return rows;
}

/// Every planned row is there once per side, and nothing else is.
void expect_plan_met(const MemorySink& sink) {
  const auto plan = planned(sink);
  std::set<std::tuple<bool, int, TracePoint>> traced;
  for (const TraceRecord& row : sink.records) {
    EXPECT_TRUE(traced.emplace(is_decode(row.phase), row.layer, row.point).second)
        << row_name({row.point, row.layer}) << " twice";
  }
  EXPECT_EQ(traced, plan);
}

class ProbeOfModel : public testing::TestWithParam<NamedShape> {};

TEST_P(ProbeOfModel, BatchInvariantSidesAreBitwiseEqual) {
  const TestModel model(GetParam().shape, GetParam().type);
  const TestEngine engine(model);
  const MemorySink sink =
      run_probe(engine, probe_options(engine, Mode::kBatchInvariant), model.tokens(11));
  EXPECT_EQ(sink.of(Phase::kPrefillLast).size(), 2u + 3u * 21u + 6u);
  EXPECT_TRUE(differences(sink).empty());
  for (const TraceRecord& row : sink.records) EXPECT_TRUE(is_finite(row.fingerprint));
}

TEST_P(ProbeOfModel, AsDesignedSidesDifferByRoundingAlone) {
  const TestModel model(GetParam().shape, GetParam().type);
  const TestEngine engine(model);
  const MemorySink sink =
      run_probe(engine, probe_options(engine, Mode::kAsDesigned), model.tokens(11));
  EXPECT_FALSE(differences(sink).empty());
  const auto prefill = sink.of(Phase::kPrefillLast), decode = sink.of(Phase::kDecode0);
  for (const auto& [key, row] : prefill) {
    EXPECT_LE(distance(*row, *decode.at(key)), 5e-6) << row_name(key);
  }
}

TEST_P(ProbeOfModel, EveryRowIsThatOfFloat64) {
  const TestModel model(GetParam().shape, GetParam().type);
  const TestEngine engine(model);
  const Reference reference(model.file());
  for (const Mode mode : {Mode::kAsDesigned, Mode::kKvAligned, Mode::kBatchInvariant}) {
    SCOPED_TRACE(mode_name(mode));
    const MemorySink sink = run_probe(engine, probe_options(engine, mode), model.tokens(11));
    const ReferenceProbe expected = reference.probe(model.tokens(11), mode, {});
    for (const auto& [phase, side] : {std::pair(Phase::kPrefillLast, &expected.prefill),
                                      std::pair(Phase::kDecode0, &expected.decode)}) {
      for (const auto& [key, row] : sink.of(phase)) {
        ASSERT_EQ(row->sample.size(), row->fingerprint.n) << row_name(key);
        EXPECT_LE(relative_l2(widen(row->sample), side->at(key.first, key.second)), 5e-6)
            << phase_name(phase) << " " << row_name(key);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ProbeOfModel, testing::ValuesIn(shapes_of_every_type()),
                         [](const auto& param) { return param.param.name; });
INSTANTIATE_TEST_SUITE_P(Others, ProbeOfModel, testing::ValuesIn(other_shapes()),
                         [](const auto& param) { return param.param.name; });

class ProbeTest : public testing::Test {
 protected:
  ProbeOptions options(Mode mode) const { return probe_options(engine_, mode); }
  MemorySink run(const ProbeOptions& with, int64_t n_tokens = 9) const {
    return run_probe(engine_, with, model_.tokens(n_tokens));
  }

  TestModel model_{small_shape()};
  TestEngine engine_{model_};
};

TEST_F(ProbeTest, PlanIsMetForAnySelection) {
  ProbeOptions with = options(Mode::kAsDesigned);
  expect_plan_met(run(with));
  EXPECT_EQ(planned(run(with)).size(), 2 * (2u + 3u * 21u + 6u));

  with.selection.layers = {0, 2};
  expect_plan_met(run(with));
  with.selection.points = {TracePoint::kEmbedOut, TracePoint::kAttnProbs, TracePoint::kXOut,
                           TracePoint::kLogitsTop1};
  expect_plan_met(run(with));
  EXPECT_EQ(planned(run(with)).size(), 2 * (1u + 2u * 2u + 1u));

  with.selection.phases = {Phase::kDecode0};
  const MemorySink decode_only = run(with);
  expect_plan_met(decode_only);
  EXPECT_EQ(decode_only.records.size(), 6u);
}

TEST_F(ProbeTest, SidesAreTheSameTokenAtTheSamePosition) {
  const std::vector<int32_t> tokens = model_.tokens(9);
  const MemorySink sink = run(options(Mode::kAsDesigned));
  ASSERT_EQ(sink.prompts.size(), 1u);
  EXPECT_EQ(sink.prompts[0].token_ids, tokens);
  for (const TraceRecord& row : sink.records) {
    EXPECT_EQ(row.pos_id, 8);
    EXPECT_EQ(row.token_id, tokens.back());
    EXPECT_EQ(row.step, is_decode(row.phase) ? 1 : 0);
    EXPECT_EQ(row.seq_len, is_decode(row.phase) ? 1 : 9);
    EXPECT_EQ(row.token_index, is_decode(row.phase) ? 0 : 8);
  }
  ASSERT_EQ(sink.readouts.size(), 2u);
  EXPECT_EQ(sink.readouts[0].phase, Phase::kPrefillLast);
  EXPECT_EQ(sink.readouts[1].phase, Phase::kDecode0);
  for (const ReadoutRecord& readout : sink.readouts) {
    EXPECT_EQ(readout.pos_id, 8);
    EXPECT_EQ(readout.vocab, model_.config().vocab);
    EXPECT_NE(readout.top1_id, readout.top2_id);
    EXPECT_GE(readout.top1_logit, readout.top2_logit);
  }
}

TEST_F(ProbeTest, ReadoutIsTheTopOfTheTracedLogits) {
  const MemorySink sink = run(options(Mode::kAsDesigned));
  for (const ReadoutRecord& readout : sink.readouts) {
    const auto rows = sink.of(readout.phase);
    const std::vector<float>& logits = rows.at({TracePoint::kLogits, kLayerAfterStack})->sample;
    const auto best = std::max_element(logits.begin(), logits.end());
    EXPECT_EQ(readout.top1_id, best - logits.begin());
    EXPECT_EQ(readout.top1_logit, *best);
    EXPECT_EQ(rows.at({TracePoint::kLogitsTop1, kLayerAfterStack})->sample,
              std::vector<float>{*best});
    EXPECT_EQ(rows.at({TracePoint::kLogitsTopk, kLayerAfterStack})->sample.size(), 5u);
  }
}

TEST_F(ProbeTest, CacheRowsAreThoseUpToThePosition) {
  const int64_t width = model_.config().kv_dim();  // of four KV heads for eight of queries
  for (const int64_t n : {1, 2, 9}) {
    const MemorySink sink = run(options(Mode::kAsDesigned), n);
    for (const Phase phase : {Phase::kPrefillLast, Phase::kDecode0}) {
      const auto rows = sink.of(phase);
      for (const auto& [all, own] : {std::pair(TracePoint::kKCacheRows, TracePoint::kKCache),
                                     std::pair(TracePoint::kVCacheRows, TracePoint::kVCache)}) {
        const std::vector<float>& values = rows.at({all, 2})->sample;
        ASSERT_EQ(values.size(), static_cast<size_t>(n * width));
        EXPECT_EQ(std::vector<float>(values.end() - width, values.end()),
                  rows.at({own, 2})->sample);
        EXPECT_TRUE(is_finite(rows.at({all, 2})->fingerprint)) << "what is beyond was read";
      }
    }
  }
}

TEST_F(ProbeTest, KvAlignedStillTracesTheKvThatDecodeComputes) {
  ProbeOptions with = options(Mode::kKvAligned);
  with.forward.faults = FaultSet({parse_fault("rope_pos_off_by_one@decode:layer=1")});
  const MemorySink sink = run(with);
  const auto prefill = sink.of(Phase::kPrefillLast), decode = sink.of(Phase::kDecode0);
  const auto apart = [&](TracePoint point) {
    return distance(*prefill.at({point, 1}), *decode.at({point, 1}));
  };
  EXPECT_GT(apart(TracePoint::kKPostRope), 0.01);
  EXPECT_EQ(apart(TracePoint::kKCache), 0);
}

TEST_F(ProbeTest, PromptInSeveralBatchesGivesTheSameRows) {
  ProbeOptions with = options(Mode::kBatchInvariant);
  const MemorySink whole = run(with, 11);
  with.forward.max_batch = 4;
  const MemorySink pieces = run(with, 11);
  EXPECT_TRUE(differences(pieces).empty());
  const auto a = whole.of(Phase::kPrefillLast), b = pieces.of(Phase::kPrefillLast);
  for (const auto& [key, row] : a) {
    EXPECT_TRUE(same_bits(row->fingerprint, b.at(key)->fingerprint)) << row_name(key);
  }
}

TEST_F(ProbeTest, EarlierPromptLeavesNothingBehind) {
  for (const Mode mode : {Mode::kAsDesigned, Mode::kKvAligned, Mode::kBatchInvariant}) {
    const ProbeOptions with = options(mode);
    const MemorySink fresh = run(with, 9);
    Probe probe(engine_.model, engine_.weights, *engine_.backend, 14, with);
    MemorySink sink;
    probe.run({.name = "long", .text_sha256 = "", .tokens = model_.tokens(14, 7)}, sink);
    sink.records.clear();
    probe.run({.name = "short", .text_sha256 = "", .tokens = model_.tokens(9)}, sink);
    ASSERT_EQ(sink.records.size(), fresh.records.size());
    for (size_t i = 0; i < fresh.records.size(); ++i) {
      EXPECT_TRUE(same_bits(sink.records[i].fingerprint, fresh.records[i].fingerprint))
          << row_name({fresh.records[i].point, fresh.records[i].layer});
    }
  }
}

TEST_F(ProbeTest, OtherPositionsAreTracedWhenAsked) {
  ProbeOptions with = options(Mode::kBatchInvariant);
  with.selection.phases.push_back(Phase::kPrefill);
  with.selection.layers = {1};
  with.forward.max_batch = 4;
  const MemorySink sink = run(with, 9);
  const auto count = [&](Phase phase, TracePoint point) {
    return std::count_if(sink.records.begin(), sink.records.end(), [&](const TraceRecord& row) {
      return row.phase == phase && row.point == point;
    });
  };
  EXPECT_EQ(count(Phase::kPrefill, TracePoint::kAttnProbs), 8);
  EXPECT_EQ(count(Phase::kPrefill, TracePoint::kLogits), 8);
  EXPECT_EQ(count(Phase::kPrefill, TracePoint::kKCacheRows), 0);
  EXPECT_EQ(count(Phase::kPrefillLast, TracePoint::kAttnProbs), 1);
  for (const TraceRecord& row : sink.records) {
    EXPECT_TRUE(is_finite(row.fingerprint)) << row_name({row.point, row.layer});
    if (row.point == TracePoint::kAttnScores) {
      EXPECT_EQ(row.fingerprint.n, static_cast<uint64_t>(8 * (row.pos_id + 1)));
    }
  }
}

TEST_F(ProbeTest, DecodeStepsFollowTheGreedyChoice) {
  ProbeOptions with = options(Mode::kBatchInvariant);
  with.selection.phases.push_back(Phase::kDecode);
  with.decode_steps = 3;
  const MemorySink sink = run(with, 5);
  std::vector<int32_t> sequence = model_.tokens(5);
  for (int step = 1; step <= 3; ++step) {
    sequence.push_back(sink.readouts.at(static_cast<size_t>(step)).top1_id);
  }
  const auto expected = Reference(model_.file()).logits(sequence);
  int found = 0;
  for (const TraceRecord& row : sink.records) {
    if (row.phase != Phase::kDecode || row.point != TracePoint::kLogits) continue;
    ++found;
    EXPECT_EQ(row.step, row.pos_id - 3);
    EXPECT_EQ(row.token_id, sequence.at(static_cast<size_t>(row.pos_id)));
    EXPECT_LE(relative_l2(widen(row.sample), expected.at(static_cast<size_t>(row.pos_id))), 2e-6);
  }
  EXPECT_EQ(found, 3);
}

TEST_F(ProbeTest, HeadChecksAgreeWithTheEngine) {
  ProbeOptions with = options(Mode::kAsDesigned);
  with.rms_verify = with.cpu_probe = true;
  const MemorySink sink = run(with);
  for (const ReadoutRecord& readout : sink.readouts) {
    EXPECT_EQ(readout.cpu_top1_id, readout.top1_id);
  }
  for (const Phase phase : {Phase::kPrefillLast, Phase::kDecode0}) {
    const auto rows = sink.of(phase);
    EXPECT_NE(rows.at({TracePoint::kFinalNorm, kLayerAfterStack})->extra.find("rms_max_rel_err"),
              std::string::npos);
    EXPECT_NE(rows.at({TracePoint::kLogits, kLayerAfterStack})->extra.find("lm_head_route"),
              std::string::npos);
  }
}

TEST_F(ProbeTest, RowsBeyondAFingerprintAreRefused) {
  for (const TracePoint point : {TracePoint::kAttnProbs, TracePoint::kVCacheRows}) {
    ProbeOptions with = options(Mode::kAsDesigned);
    with.selection.points = {point};
    EXPECT_THROW(Probe(engine_.model, engine_.weights, *engine_.backend, (1 << 28) + 1, with),
                 std::invalid_argument);
  }
}

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

}  // namespace

}  // namespace greta
