#include "engine/forward/forward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "engine/forward/tracer.h"
#include "tests/engine/engine_fixture.h"
#include "tests/engine/forward/reference_f64.h"

namespace greta {
namespace {

using Logits = std::vector<std::vector<float>>;  // one row per position

constexpr double kLogitsTolerance = 2e-6;
constexpr std::array kModes{Mode::kAsDesigned, Mode::kKvAligned, Mode::kBatchInvariant};

/// Appends the logits of the last batch.
void take_logits(const TestEngine& engine, const Forward& forward, Logits& logits) {
  const int64_t vocab = engine.model.config().vocab;
  for (int64_t i = 0; i < forward.n_logits(); ++i) {
    logits.push_back(engine.read(forward.logits() + i * vocab, vocab));
  }
}

/// Logits of every position by prefill, in batches of at most max_batch tokens.
Logits prefill(const TestEngine& engine, Mode mode, std::span<const int32_t> tokens,
               int64_t max_batch) {
  const auto n = static_cast<int64_t>(tokens.size());
  ForwardOptions options = engine.options(mode);
  options.max_batch = max_batch;
  KvCache cache(engine.model.config(), n, *engine.backend);
  Forward forward(engine.model, engine.weights, *engine.backend, cache, options);
  Logits logits;
  for (int64_t first = 0; first < n; first += max_batch) {
    const int64_t count = std::min(max_batch, n - first);
    const auto piece = tokens.subspan(static_cast<size_t>(first), static_cast<size_t>(count));
    forward.run({.tokens = piece, .first_pos = first, .n_logits = count}, nullptr);
    take_logits(engine, forward, logits);
  }
  return logits;
}

/// Logits of every position by decode, token by token.
Logits decode(const TestEngine& engine, Mode mode, std::span<const int32_t> tokens) {
  const auto n = static_cast<int64_t>(tokens.size());
  KvCache cache(engine.model.config(), n, *engine.backend);
  Forward forward(engine.model, engine.weights, *engine.backend, cache, engine.options(mode));
  Logits logits;
  for (int64_t pos = 0; pos < n; ++pos) {
    const auto token = tokens.subspan(static_cast<size_t>(pos), 1);
    forward.run({.tokens = token, .first_pos = pos, .decode = true}, nullptr);
    take_logits(engine, forward, logits);
  }
  return logits;
}

/// The greatest distance of a position's logits from the reference; infinity when one is no number.
double worst_distance(const Logits& logits, const std::vector<std::vector<double>>& expected) {
  EXPECT_EQ(logits.size(), expected.size());
  double worst = 0;
  for (size_t i = 0; i < std::min(logits.size(), expected.size()); ++i) {
    const double distance = relative_l2(widen(logits[i]), expected[i]);
    worst = std::max(worst, std::isnan(distance) ? HUGE_VAL : distance);
  }
  return worst;
}

/// Both paths, every mode, several batch sizes and numbers of threads.
void expect_close_to_reference(const TestModel& model, int64_t n_tokens) {
  const std::vector<int32_t> tokens = model.tokens(n_tokens);
  const auto expected = Reference(model.file()).logits(tokens);
  double worst = 0;
  for (const int n_threads : {1, 2, 3}) {
    const TestEngine engine(model, n_threads);
    for (const Mode mode : kModes) {
      SCOPED_TRACE(std::string(mode_name(mode)) + ", threads " + std::to_string(n_threads));
      for (const int64_t max_batch : {1, 7, 512}) {
        const double far = worst_distance(prefill(engine, mode, tokens, max_batch), expected);
        EXPECT_LE(far, kLogitsTolerance) << "prefill in batches of " << max_batch;
        worst = std::max(worst, far);
      }
      const double far = worst_distance(decode(engine, mode, tokens), expected);
      EXPECT_LE(far, kLogitsTolerance) << "decode";
      worst = std::max(worst, far);
    }
  }
  testing::Test::RecordProperty("worst_relative_l2", std::to_string(worst * 1e6) + "e-6");
}

bool same_bits(const Logits& a, const Logits& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size() ||
        std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) != 0) {
      return false;
    }
  }
  return true;
}

void expect_same_bits_in_any_batch(const TestModel& model, int64_t n_tokens) {
  const std::vector<int32_t> tokens = model.tokens(n_tokens);
  const Logits alone = decode(TestEngine(model, 1), Mode::kBatchInvariant, tokens);
  for (const int n_threads : {1, 3}) {
    const TestEngine engine(model, n_threads);
    for (const int64_t max_batch : {1, 2, 7, 512}) {
      EXPECT_TRUE(same_bits(prefill(engine, Mode::kBatchInvariant, tokens, max_batch), alone))
          << "batches of " << max_batch << ", threads " << n_threads;
    }
  }
}

class ForwardOfType : public testing::TestWithParam<std::string> {};

TEST_P(ForwardOfType, LogitsAreThoseOfFloat64) {
  expect_close_to_reference(TestModel(small_shape(), GetParam()), 19);
}

TEST_P(ForwardOfType, BatchInvariantLogitsHaveTheSameBitsInAnyBatch) {
  expect_same_bits_in_any_batch(TestModel(small_shape(), GetParam()), 19);
}

INSTANTIATE_TEST_SUITE_P(Types, ForwardOfType, testing::ValuesIn(synth_type_names()),
                         [](const auto& param) { return param.param; });

SynthShape odd_shape(int64_t n_heads, int64_t n_kv_heads, int64_t head_dim) {
  return {.name = "odd",
          .n_layers = 2,
          .dim = 96,
          .n_heads = n_heads,
          .n_kv_heads = n_kv_heads,
          .head_dim = head_dim,
          .ffn_dim = 200,
          .vocab = 512,
          .context = 64};
}

SynthShape with(SynthShape shape, bool SynthShape::*flag) {
  shape.*flag = true;
  return shape;
}

std::vector<NamedShape> shapes() {
  SynthShape one_layer = odd_shape(1, 1, 2);
  one_layer.n_layers = 1;
  one_layer.ffn_dim = 1;
  SynthShape narrow = odd_shape(3, 3, 34);
  narrow.dim = 33;
  narrow.ffn_dim = 71;
  SynthShape blocks_of_32 = odd_shape(6, 2, 16);
  blocks_of_32.ffn_dim = 224;
  return {{"mha", odd_shape(6, 6, 16)},
          {"gqa", odd_shape(6, 2, 16), "f16"},
          {"mqa", odd_shape(6, 1, 16), "bf16"},
          {"wide_heads", odd_shape(5, 1, 38)},
          {"narrow_heads", odd_shape(4, 2, 6), "bf16"},
          {"smallest", one_layer},
          {"odd_dim", narrow, "f16"},
          {"tied", with(odd_shape(6, 3, 16), &SynthShape::tied)},
          {"tied_q8_0", with(blocks_of_32, &SynthShape::tied), "q8_0"},
          {"odd_q4_0", blocks_of_32, "q4_0"},
          {"odd_q4_k_m", blocks_of_32, "q4_k_m"},  // falls back to q5_0 and q8_0
          {"odd_q5_1", blocks_of_32, "q5_1"},
          {"rope_freqs", with(odd_shape(6, 2, 16), &SynthShape::rope_freqs)},
          {"sentencepiece", with(odd_shape(6, 2, 16), &SynthShape::sentencepiece)},
          {"tied_q4_k_m", with(small_shape(), &SynthShape::tied), "q4_k_m"},
          {"tiny", synth_preset("tiny"), "q4_k_m"}};
}

class ForwardOfShape : public testing::TestWithParam<NamedShape> {};

TEST_P(ForwardOfShape, LogitsAreThoseOfFloat64) {
  expect_close_to_reference(TestModel(GetParam().shape, GetParam().type), 23);
}

class ForwardOfArchitecture : public testing::TestWithParam<NamedShape> {};

TEST_P(ForwardOfArchitecture, LogitsAreThoseOfFloat64) {
  expect_close_to_reference(TestModel(GetParam().shape, GetParam().type), 23);
}

TEST_P(ForwardOfArchitecture, BatchInvariantLogitsHaveTheSameBitsInAnyBatch) {
  expect_same_bits_in_any_batch(TestModel(GetParam().shape, GetParam().type), 23);
}

TEST_P(ForwardOfArchitecture, WhatTheFileAsksForMakesADifference) {
  SynthShape plain = GetParam().shape;
  plain.architecture = "llama";
  plain.rope_scaling = {};
  plain.rope_attn_factor = 1;
  plain.window = 0;
  plain.windowed = {};
  const TestModel model(plain, GetParam().type);
  const std::vector<int32_t> tokens = model.tokens(23);
  const TestModel asked(GetParam().shape, GetParam().type);
  EXPECT_GT(worst_distance(decode(TestEngine(model), Mode::kAsDesigned, tokens),
                           Reference(asked.file()).logits(tokens)),
            1e-2);
}

INSTANTIATE_TEST_SUITE_P(Others, ForwardOfArchitecture, testing::ValuesIn(other_shapes()),
                         [](const auto& param) { return param.param.name; });

INSTANTIATE_TEST_SUITE_P(Shapes, ForwardOfShape, testing::ValuesIn(shapes()),
                         [](const auto& param) { return param.param.name; });

SynthShape random_shape(uint64_t seed) {
  uint64_t drawn = seed << 8;
  const auto draw = [&](int64_t from, int64_t to) {
    return from + static_cast<int64_t>(mix64(++drawn) % static_cast<uint64_t>(to - from + 1));
  };
  SynthShape shape = odd_shape(1, 1, 2);
  shape.n_kv_heads = draw(1, 4);
  shape.n_heads = shape.n_kv_heads * draw(1, 3);
  shape.head_dim = 2 * draw(1, 24);
  shape.dim = draw(16, 160);
  shape.ffn_dim = draw(1, 300);
  shape.tied = draw(0, 1) == 1;
  shape.rope_freqs = draw(0, 1) == 1;
  shape.rope_theta = static_cast<double>(draw(2, 1000000));
  return shape;
}

TEST(Forward, LogitsOfRandomShapesAreThoseOfFloat64) {
  constexpr std::array kTypes{"f32", "f16", "bf16"};
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const SynthShape shape = random_shape(seed);
    SCOPED_TRACE("dim " + std::to_string(shape.dim) + ", ffn " + std::to_string(shape.ffn_dim) +
                 ", heads " + std::to_string(shape.n_heads) + "/" +
                 std::to_string(shape.n_kv_heads) + " of " + std::to_string(shape.head_dim));
    const TestModel model(shape, kTypes[seed % kTypes.size()], seed);
    const std::vector<int32_t> tokens = model.tokens(static_cast<int64_t>(3 * seed), seed);
    const auto expected = Reference(model.file()).logits(tokens);
    const TestEngine engine(model);
    EXPECT_LE(worst_distance(prefill(engine, Mode::kAsDesigned, tokens, 64), expected),
              kLogitsTolerance);
    EXPECT_LE(worst_distance(decode(engine, Mode::kAsDesigned, tokens), expected),
              kLogitsTolerance);
  }
}

TEST(Forward, RopeMayTurnOnlyPartOfAHead) {
  const auto set_rope_dim = [](std::string& bytes) {
    const std::string key = "llama.rope.dimension_count";
    const size_t at = bytes.find(key);
    ASSERT_NE(at, std::string::npos);
    bytes[at + key.size() + 4] = 12;  // the value, little-endian, follows its type
  };
  SynthShape shape = odd_shape(4, 2, 24);
  const TestModel partial(shape, "f32", 1, set_rope_dim);
  ASSERT_EQ(partial.config().rope_dim, 12);
  expect_close_to_reference(partial, 23);
  const std::vector<int32_t> tokens = partial.tokens(23);
  const TestModel whole(shape);
  EXPECT_GT(worst_distance(decode(TestEngine(whole), Mode::kAsDesigned, tokens),
                           Reference(partial.file()).logits(tokens)),
            1e-3);
}

TEST(Forward, LongPromptsStayClose) {
  const TestModel model(odd_shape(6, 2, 16));
  const std::vector<int32_t> tokens = model.tokens(300);
  const auto expected = Reference(model.file()).logits(tokens);
  const TestEngine engine(model);
  for (const int64_t max_batch : {97, 512}) {
    EXPECT_LE(worst_distance(prefill(engine, Mode::kAsDesigned, tokens, max_batch), expected),
              kLogitsTolerance);
  }
  EXPECT_LE(worst_distance(decode(engine, Mode::kAsDesigned, tokens), expected), kLogitsTolerance);
}

TEST(Forward, PrefillAndDecodeAreDifferentRoutesAsDesigned) {
  const TestModel model(small_shape(), "q4_k_m");
  const TestEngine engine(model);
  const std::vector<int32_t> tokens = model.tokens(19);
  EXPECT_FALSE(same_bits(prefill(engine, Mode::kAsDesigned, tokens, 64),
                         decode(engine, Mode::kAsDesigned, tokens)));
}

TEST(Forward, KeptCacheGoesOnWhereABatchEnded) {
  const TestModel model(small_shape());
  const TestEngine engine(model);
  const std::vector<int32_t> tokens = model.tokens(12);
  const std::span<const int32_t> all(tokens);
  KvCache cache(model.config(), 12, *engine.backend);
  Forward forward(model.model(), engine.weights, *engine.backend, cache,
                  engine.options(Mode::kBatchInvariant));
  forward.run({.tokens = all.first(11)}, nullptr);
  forward.run({.tokens = all.subspan(11), .first_pos = 11, .decode = true}, nullptr);
  Logits last;
  take_logits(engine, forward, last);
  EXPECT_TRUE(same_bits(last, {decode(engine, Mode::kBatchInvariant, tokens).back()}));
}

/// A forward pass by the routes of decode and prefill as designed, and its cache of six rows.
struct ForwardInCache : testing::Test {
  const TestModel model{small_shape()};
  const TestEngine engine{model};
  KvCache cache{model.config(), 6, *engine.backend};
  Forward forward{model.model(), engine.weights, *engine.backend, cache,
                  engine.options(Mode::kAsDesigned)};
  const std::vector<int32_t> tokens = model.tokens(4);
};

TEST_F(ForwardInCache, CacheStaysAsItIsWhenKvIsNotKept) {
  forward.run({.tokens = tokens}, nullptr);
  const int64_t n = cache.rows() * cache.width();
  const std::vector<float> k = engine.read(words_of(cache.k(2), n).data(), n),
                           v = engine.read(words_of(cache.v(2), n).data(), n);
  const std::vector<int32_t> other{tokens[0]};
  forward.run({.tokens = other, .first_pos = 3, .decode = true, .keep_kv = false}, nullptr);
  EXPECT_EQ(engine.read(words_of(cache.k(2), n).data(), n), k);
  EXPECT_EQ(engine.read(words_of(cache.v(2), n).data(), n), v);
}

TEST_F(ForwardInCache, PoisonReachesEveryActivationThatCanBeRead) {
  forward.run({.tokens = tokens, .n_logits = 4}, nullptr);
  forward.poison_activations();
  const auto all_nan = [&](const float* data, int64_t n) {
    const std::vector<float> values = engine.read(data, n);
    return std::all_of(values.begin(), values.end(), [](float x) { return std::isnan(x); });
  };
  EXPECT_TRUE(all_nan(forward.logits(), 4 * model.config().vocab));
  EXPECT_TRUE(all_nan(forward.hidden(), 4 * model.config().dim));
  EXPECT_TRUE(all_nan(forward.final_norm(), 4 * model.config().dim));
}

TEST_F(ForwardInCache, ARowOfTheCacheThatIsNotFiniteIsSeenByEveryLaterToken) {
  forward.run({.tokens = tokens}, nullptr);
  cache.poison_from(4);  // what nobody may read
  engine.backend->fill(words_of(cache.v(1) + cache.width(), 1).data(), 1,
                       std::numeric_limits<float>::quiet_NaN());
  Tracer tracer({}, *engine.backend);
  tracer.begin({tokens.data(), 1}, 4, Phase::kDecode0, {}, 1);
  forward.run({.tokens = {tokens.data(), 1}, .first_pos = 4, .decode = true}, &tracer);
  MemorySink sink;
  sink.rows(0, tracer.take());
  const auto rows = sink.of(Phase::kDecode0);
  EXPECT_EQ(rows.at({TracePoint::kVCacheRows, 1})->fingerprint.nan, 1u);
  EXPECT_EQ(rows.at({TracePoint::kVCache, 1})->fingerprint.nan, 0u);
  EXPECT_EQ(rows.at({TracePoint::kKCacheRows, 1})->fingerprint.nan, 0u);
  EXPECT_EQ(rows.at({TracePoint::kVCacheRows, 0})->fingerprint.nan, 0u);
}

TEST(Tracer, CacheRowsOfTokensThatNobodyComparesAreTracedWhenNamed) {
  TraceSelection selection;
  EXPECT_TRUE(selection.wants(TracePoint::kKCacheRows));
  selection.compares = false;
  EXPECT_FALSE(selection.wants(TracePoint::kVCacheRows));
  EXPECT_TRUE(selection.wants(TracePoint::kVCache));
  selection.points = {TracePoint::kVCacheRows};
  EXPECT_TRUE(selection.wants(TracePoint::kVCacheRows));
}

TEST_F(ForwardInCache, PoisonStartsAtItsRow) {
  const int64_t n = cache.rows() * cache.width();
  for (int layer = 0; layer < 3; ++layer) {
    engine.backend->fill(words_of(cache.k(layer), n).data(), n, 1);
    engine.backend->fill(words_of(cache.v(layer), n).data(), n, 1);
  }
  cache.poison_from(3);
  EXPECT_EQ(cache.rows(), 7);  // one to spare
  for (int layer = 0; layer < 3; ++layer) {
    for (const KvRows& side : {cache.k(layer), cache.v(layer)}) {
      const std::vector<float> values = engine.read(words_of(side, n).data(), n);
      for (size_t i = 0; i < values.size(); ++i) {
        const bool poisoned = i >= 3 * static_cast<size_t>(cache.width());
        ASSERT_EQ(std::isnan(values[i]), poisoned) << "layer " << layer << ", value " << i;
      }
    }
  }
}

TEST(Forward, BatchesThatDoNotFitAreRefusedWithTheNumbers) {
  const TestModel model(odd_shape(4, 2, 8));
  const TestEngine engine(model);
  KvCache cache(model.config(), 5, *engine.backend);
  ForwardOptions options = engine.options(Mode::kAsDesigned);
  options.max_batch = 4;
  Forward forward(model.model(), engine.weights, *engine.backend, cache, options);
  const std::vector<int32_t> tokens = model.tokens(6);
  const std::span<const int32_t> all(tokens);
  const auto refusal = [&](const Batch& batch) -> std::string {
    try {
      forward.run(batch, nullptr);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refusal({.tokens = {}}).find("0 tokens"), std::string::npos);
  EXPECT_NE(refusal({.tokens = all.first(5)}).find("1 to 4"), std::string::npos);
  EXPECT_NE(refusal({.tokens = all.first(2), .first_pos = 4}).find("4 to 5"), std::string::npos);
  EXPECT_NE(refusal({.tokens = all.first(1), .first_pos = -1}), "");
  EXPECT_NE(refusal({.tokens = all.first(2), .n_logits = 3}), "");
  EXPECT_NE(refusal({.tokens = all.first(2), .n_logits = 0}), "");
  const std::vector<int32_t> beyond{static_cast<int32_t>(model.config().vocab)};
  EXPECT_NE(refusal({.tokens = beyond}).find(std::to_string(model.config().vocab)),
            std::string::npos);
  const std::vector<int32_t> negative{-1};
  EXPECT_NE(refusal({.tokens = negative}), "");
  EXPECT_EQ(refusal({.tokens = all.first(4)}), "");
}

TEST(Forward, FaultsThatTheModelCannotHaveAreRefused) {
  const TestModel model(odd_shape(4, 2, 8));
  const TestEngine engine(model);
  KvCache cache(model.config(), 5, *engine.backend);
  const auto make = [&](std::string_view fault) {
    Forward(model.model(), engine.weights, *engine.backend, cache,
            engine.options(Mode::kAsDesigned, {parse_fault(fault)}));
  };
  EXPECT_NO_THROW(make("race:layer=1"));
  EXPECT_THROW(make("race:layer=2"), std::invalid_argument);
}

}  // namespace

}  // namespace greta
