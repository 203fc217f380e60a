// A KV cache in f16: what is stored, traced and compared is what attention reads.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "engine/probe/replay.h"
#include "tests/engine/forward/reference_f64.h"
#include "tests/engine/probe/probe_fixture.h"
#include "tests/engine/probe/told.h"

namespace greta {
namespace {

using enum TracePoint;

TEST(HalfCache, TakesHalfTheMemoryAndIsPoisonedAndCopiedByRows) {
  const TestModel model(small_shape());
  const TestEngine engine(model, 1);
  KvCache cache(model.config(), 3, *engine.backend, 2, KvType::kF16);
  const int64_t width = cache.width();
  const auto halves = [&](const KvRows& rows) { return static_cast<uint16_t*>(rows.data); };
  EXPECT_EQ(halves(cache.k(1) + width) - halves(cache.k(1)), width);
  EXPECT_EQ(words_of(cache.k(0), 2 * width).size(), static_cast<size_t>(width));
  std::fill_n(halves(cache.v(2)), 5 * width, uint16_t{0x3c00});
  cache.poison(1, 1);
  cache.copy(1, 1, 4);
  for (int64_t i = 0; i < 5 * width; ++i) {
    const int64_t row = i / width;
    ASSERT_EQ(std::isnan(f16_to_f32(halves(cache.v(2))[i])), row == 1 || row == 4) << i;
  }
  EXPECT_EQ(parse_kv_type("f16"), KvType::kF16);
  EXPECT_EQ(kv_type_name(KvType::kF32), "f32");
  EXPECT_THROW(parse_kv_type("q8_0"), std::invalid_argument);
}

TEST(HalfCache, BatchInvariantProbesAgreeInEveryBit) {
  for (const NamedShape& one : {NamedShape{"llama", small_shape()}, other_shapes()[0],
                                other_shapes()[1], other_shapes()[6]}) {
    SCOPED_TRACE(one.name);
    const TestModel model(one.shape, one.type);
    expect_half_cache_is_invariant(model, TestEngine(model));
  }
}

TEST(HalfCache, OtherRoutesDifferByTheRoundingOfF16) {
  const TestModel model(small_shape());
  const TestEngine engine(model);
  for (const Mode mode : {Mode::kAsDesigned, Mode::kKvAligned}) {
    const ProbeOptions options = half_cache_options(engine, mode);
    const MemorySink sink = run_probe(engine, options, model.tokens(9));
    const auto prefill = sink.of(Phase::kPrefillLast), decode = sink.of(Phase::kDecode0);
    for (const auto& [key, row] : prefill) {
      EXPECT_LT(relative_l2(widen(decode.at(key)->sample), widen(row->sample)), 2e-3)
          << row_name(key);
    }
  }
}

TEST(HalfCache, DiffersFromOneInF32ByItsRoundingOnly) {
  const TestModel model(small_shape());
  const TestEngine engine(model);
  ProbeOptions options = half_cache_options(engine, Mode::kBatchInvariant);
  const MemorySink halves = run_probe(engine, options, model.tokens(9));
  options.forward.kv_cache = KvType::kF32;
  const MemorySink whole = run_probe(engine, options, model.tokens(9));
  const auto a = halves.of(Phase::kDecode0), b = whole.of(Phase::kDecode0);
  EXPECT_TRUE(same_bits(a.at({kKPostRope, 0})->fingerprint, b.at({kKPostRope, 0})->fingerprint));
  EXPECT_FALSE(same_bits(a.at({kKCache, 0})->fingerprint, b.at({kKCache, 0})->fingerprint));
  const double distance = relative_l2(widen(a.at({kLogits, kLayerAfterStack})->sample),
                                      widen(b.at({kLogits, kLayerAfterStack})->sample));
  EXPECT_GT(distance, 0);
  EXPECT_LT(distance, 5e-3);
}

TEST(HalfCache, PromptsTogetherHaveTheBitsOfEachAlone) {
  const TestModel model(small_shape());
  const TestEngine engine(model);
  ProbeOptions options = half_cache_options(engine, Mode::kBatchInvariant);
  options.forward.max_batch = 19;
  options.decode_steps = 2;
  const std::vector<ProbePrompt> suite = prompts_of(model, std::array<int64_t, 4>{5, 1, 3, 9});
  expect_same(told(engine, options, suite, 1), told(engine, options, suite, 3), "three at a time");
}

/// The first rows that differ are where the fault is.
TEST(HalfCache, FaultsOfTheCacheShowInIt) {
  const TestModel model(small_shape());
  const TestEngine engine(model);
  const std::vector<std::pair<std::string, TracePoint>> faults{
      {"stale_kv_tail:layer=1", kKCache},
      {"kv_wrong_slot:layer=1", kKCache},
      {"k_cache_spoiled:layer=1", kKCacheRows},
      {"kv_head_stride:layer=1", kAttnScores},
      {"v_layout_transposed:layer=1", kAttnOut}};
  for (const auto& [fault, point] : faults) {
    ProbeOptions options = half_cache_options(engine, Mode::kBatchInvariant);
    options.forward.faults = FaultSet({parse_fault(fault)});
    const auto differ = differences(run_probe(engine, options, model.tokens(9)));
    ASSERT_FALSE(differ.empty()) << fault;
    EXPECT_EQ(row_name(differ.front()), row_name({point, 1})) << fault;
  }
}

TEST(HalfCache, OperationsRunAgainOnItsRows) {
  const TestModel model(small_shape());
  const TestEngine engine(model, 1);
  const ProbePrompt prompt{
      .name = "p", .text_sha256 = "", .tokens = model.tokens(7), .decode_steps = 2};
  const auto run = [&](TracePoint point, std::vector<Fault> faults, int64_t pos = 8) {
    ProbeOptions options{.forward = engine.options(Mode::kBatchInvariant, std::move(faults)),
                         .selection = {}};
    options.forward.kv_cache = KvType::kF16;
    return replay(engine.model, engine.weights, *engine.backend, options, prompt, {point, 1, pos});
  };
  for (const TracePoint point : {kKCache, kVCache, kAttnScores, kAttnProbs, kAttnOut}) {
    const Replayed clean = run(point, {});
    EXPECT_EQ(clean.alone, clean.prefill.sample) << trace_point_name(point);
  }
  const Replayed stale = run(kKCache, {parse_fault("stale_kv_tail:layer=1")});
  EXPECT_EQ(stale.alone, run(kKCache, {}, 7).prefill.sample);
  EXPECT_NE(stale.alone, stale.prefill.sample);
}

}  // namespace
}  // namespace greta
