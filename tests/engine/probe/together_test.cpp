// Prompts that are computed together, against the same prompts one at a time.

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <vector>

#include "db/database.h"
#include "db/transaction.h"
#include "engine/probe/suite.h"
#include "engine/record/run_queue.h"
#include "tests/engine/forward/tampered_backend.h"
#include "tests/engine/probe/told.h"

namespace greta {
namespace {

constexpr std::array<int64_t, 9> kLengths{5, 1, 9, 12, 1, 30, 3, 17, 8};

ProbeOptions options_of(const TestEngine& engine, Mode mode, std::vector<Fault> faults = {}) {
  ProbeOptions options{.forward = engine.options(mode, std::move(faults)), .selection = {}};
  options.forward.max_batch = 28;  // the one of 30 is prefilled in two batches, by itself
  options.decode_steps = 2;
  options.n_threads = 1;
  return options;
}

class TogetherOfShape : public testing::TestWithParam<NamedShape> {};

TEST_P(TogetherOfShape, BatchInvariantTellsTheSameOfAnyNumberOfPrompts) {
  const TestModel model(GetParam().shape, GetParam().type);
  const TestEngine engine(model);
  const ProbeOptions options = options_of(engine, Mode::kBatchInvariant);
  const std::vector<ProbePrompt> suite = prompts_of(model, kLengths);
  const ToldSink alone = told(engine, options, suite, 1);
  ASSERT_GT(alone.of("row").size(), 9u * 6 * 40);
  expect_same(alone, told(engine, options, suite, 2), "two at a time");
  expect_same(alone, told(engine, options, suite, 7), "seven at a time");
}

INSTANTIATE_TEST_SUITE_P(Types, TogetherOfShape,
                         testing::Values(NamedShape{"f32", small_shape(), "f32"},
                                         NamedShape{"q4_k_m", small_shape(), "q4_k_m"}),
                         testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(Others, TogetherOfShape, testing::ValuesIn(other_shapes()),
                         testing::PrintToStringParamName());

class TogetherTest : public testing::Test {
 protected:
  TestModel model_{small_shape()};
  TestEngine engine_{model_, 1};
  std::vector<ProbePrompt> suite_ = prompts_of(model_, kLengths);
};

TEST_F(TogetherTest, TheirOrderChangesNothingOfAPrompt) {
  const ProbeOptions options = options_of(engine_, Mode::kBatchInvariant);
  suite_[3].tokens = suite_[0].tokens;  // equal prompts
  suite_[6].decode_steps = 0;
  suite_[2].decode_steps = 5;
  std::vector<std::string> lines = told(engine_, options, suite_, 1).lines;
  std::sort(lines.begin(), lines.end());
  for (int turn = 0; turn < 3; ++turn) {
    std::rotate(suite_.begin(), suite_.begin() + 2, suite_.end());
    if (turn == 2) std::reverse(suite_.begin(), suite_.end());
    std::vector<std::string> turned = told(engine_, options, suite_, 4).lines;
    std::sort(turned.begin(), turned.end());
    EXPECT_TRUE(lines == turned) << "turn " << turn;
  }
}

TEST_F(TogetherTest, AnySelectionIsTold) {
  ProbeOptions options = options_of(engine_, Mode::kBatchInvariant);
  options.rms_verify = options.cpu_probe = true;
  expect_same(told(engine_, options, suite_, 1), told(engine_, options, suite_, 7), "checks");
  options.rms_verify = options.cpu_probe = false;
  options.selection.phases = {Phase::kPrefill, Phase::kPrefillLast, Phase::kDecode0};
  options.selection.sample_values = 3;
  expect_same(told(engine_, options, suite_, 1), told(engine_, options, suite_, 7), "phases");
  options.selection = {};
  options.selection.layers = {1};
  options.selection.points = {TracePoint::kAttnProbs, TracePoint::kVCacheRows};
  options.kept_bytes = 5000;  // some rows have no room to be kept
  const ToldSink alone = told(engine_, options, suite_, 1);
  EXPECT_FALSE(alone.of("attribute not_compared_exactly").empty());
  expect_same(alone, told(engine_, options, suite_, 7), "what was not compared");
  options.selection.phases = {};
  expect_same(told(engine_, options, suite_, 1), told(engine_, options, suite_, 7), "nothing");
}

TEST_F(TogetherTest, FaultsAreWhatTheyAreAlone) {
  for (const FaultInfo& info : fault_catalogue()) {
    if (info.kind == FaultKind::kRopeThetaKept) continue;  // goes by what ran before
    const std::string fault = std::string(info.name) +
                              (info.kind == FaultKind::kLmHeadRoute ? "@decode" : "@both:layer=1");
    const ProbeOptions options = options_of(engine_, Mode::kBatchInvariant, {parse_fault(fault)});
    expect_same(told(engine_, options, suite_, 1), told(engine_, options, suite_, 7), fault);
  }
}

TEST_F(TogetherTest, ARaceIsToldOfByRepeatsOfItsPromptsOnly) {
  const ProbeOptions options =
      options_of(engine_, Mode::kBatchInvariant, {parse_fault("race@decode:layer=2")});
  const ToldSink alone = told(engine_, options, suite_, 1);
  const auto repeats = [](const ToldSink& sink) {
    return std::count_if(sink.lines.begin(), sink.lines.end(), [](const std::string& line) {
      return line.find(phase_name(Phase::kRepeatDecode)) != std::string::npos;
    });
  };
  EXPECT_EQ(repeats(alone), 2 * std::ssize(kLengths));
  expect_same(alone, told(engine_, options, suite_, 3), "race");
}

TEST_F(TogetherTest, AFaultThatBeginsLaterFindsEachByItself) {
  for (const char* fault :
       {"rope_theta@both:pos=3", "rope_theta@decode:step=2", "rope_theta@prefill:length=9"}) {
    const ProbeOptions options = options_of(engine_, Mode::kBatchInvariant, {parse_fault(fault)});
    expect_same(told(engine_, options, suite_, 1), told(engine_, options, suite_, 7), fault);
  }
  ProbeOptions options = options_of(engine_, Mode::kAsDesigned, {parse_fault("race:pos=3")});
  options.sequences = 7;
  const Probe probe(engine_.model, engine_.weights, *engine_.backend, 32, options);
  EXPECT_EQ(probe.groups(suite_).size(), suite_.size());
}

/// Without what a batch may change: bits, and what is said of the batch.
std::vector<std::string> places(const ToldSink& sink) {
  std::vector<std::string> cut;
  for (const std::string& line : sink.lines) {
    if (line.starts_with("attribute prefilled_together") || line.starts_with("readout")) continue;
    const bool is_row = line.starts_with("row ");
    size_t end = 0;
    for (int word = 0; word < 9; ++word) end = line.find(' ', end + 1);
    cut.push_back(is_row ? line.substr(0, end) : line);
  }
  return cut;
}

TEST_F(TogetherTest, InOtherModesPrefillTakesThemTogetherAndSaysSo) {
  for (const Mode mode : {Mode::kAsDesigned, Mode::kKvAligned}) {
    const ProbeOptions options = options_of(engine_, mode);
    const ToldSink alone = told(engine_, options, suite_, 1);
    const ToldSink together = told(engine_, options, suite_, 3);
    EXPECT_TRUE(alone.of("attribute").empty());
    const std::vector<std::string> expected{
        R"(attribute prefilled_together ["p0","p1","p2"])",
        R"(attribute prefilled_together ["p3","p4"])",
        R"(attribute prefilled_together ["p6","p7"])",
    };
    EXPECT_EQ(together.of("attribute"), expected) << mode_name(mode);
    EXPECT_EQ(places(together), places(alone)) << mode_name(mode);
  }
}

TEST_F(TogetherTest, InOtherModesBitsAreThoseOfEachAloneWhereTheRoutesAllow) {
  for (const Mode mode : {Mode::kAsDesigned, Mode::kKvAligned}) {
    ProbeOptions options = options_of(engine_, mode, {parse_fault("rope_theta@decode:layer=1")});
    options.forward.routes = choose_routes(*engine_.backend, Mode::kBatchInvariant, {});
    ToldSink together = told(engine_, options, suite_, 3);
    std::erase_if(together.lines, [](const std::string& line) {
      return line.starts_with("attribute prefilled_together");
    });
    expect_same(told(engine_, options, suite_, 1), together, std::string(mode_name(mode)));
  }
}

TEST_F(TogetherTest, InOtherModesThePassesOfDecodeAreThoseOfOneToken) {
  const ProbeOptions options = options_of(engine_, Mode::kAsDesigned);
  auto inner = std::make_unique<TamperedBackend>(make_cpu_backend(1));
  TamperedBackend* const backend = inner.get();
  const TestEngine engine(model_, std::move(inner));
  std::vector<int64_t> tokens;
  const int64_t dim = model_.config().dim;
  backend->tamper = [&](std::string_view name, float*, int64_t n,
                        const std::function<void()>& compute) {
    if (name == "embed") tokens.push_back(n / dim);
    compute();
  };
  told(engine, options, std::span(suite_).first(3), 3);
  // Twice each: what is embedded is traced by itself as well. 3 · 2 decoded tokens, verified.
  const auto n_single = std::count(tokens.begin(), tokens.end(), 1);
  EXPECT_EQ(n_single, 2 * 3 * 3);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 5 + 1 + 9), 1);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 5 + 1 + 9 + 3 * 2), 1);
  tokens.clear();
  told(engine, options_of(engine, Mode::kBatchInvariant), std::span(suite_).first(3), 3);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 3), 2 * 3);
}

TEST_F(TogetherTest, ReadoutsAndTracesOfPrefillAreThoseOfTheCacheThatDecodeReads) {
  // The rows that decode has in its cache are those that prefill left, whatever was beside them.
  ProbeOptions options = options_of(engine_, Mode::kKvAligned);
  options.decode_steps = 1;
  options.selection.points = {TracePoint::kKCacheRows, TracePoint::kVCacheRows};
  const ToldSink sink = told(engine_, options, suite_, 7);
  for (const std::string& line : sink.of("row")) {
    EXPECT_EQ(line.find("differs"), std::string::npos) << line.substr(0, 200);
  }
}

TEST_F(TogetherTest, WhatIsKnownWhenOneFailsIsTold) {
  auto inner = std::make_unique<TamperedBackend>(make_cpu_backend(1));
  TamperedBackend* const backend = inner.get();
  const TestEngine engine(model_, std::move(inner));
  int embedded = 0;
  backend->tamper = [&](std::string_view name, float*, int64_t,
                        const std::function<void()>& compute) {
    if (name == "embed" && ++embedded > 5) throw std::runtime_error("the device is gone");
    compute();
  };
  ProbeOptions options = options_of(engine, Mode::kBatchInvariant);
  options.sequences = 3;
  Probe probe(engine.model, engine.weights, *engine.backend, 32, options);
  ToldSink sink;
  EXPECT_THROW(probe.run(probe.groups(suite_)[0], sink), std::runtime_error);
  EXPECT_EQ(sink.of("prompt").size(), 3u);
  EXPECT_FALSE(sink.of("row").empty());
}

// ---- The forward pass.

/// Logits of the tokens of a sequence, in pieces, by itself.
std::vector<std::vector<float>> logits_alone(const TestEngine& engine,
                                             std::span<const int32_t> tokens,
                                             std::span<const int64_t> pieces) {
  KvCache cache(engine.model.config(), 40, *engine.backend);
  Forward forward(engine.model, engine.weights, *engine.backend, cache,
                  engine.options(Mode::kBatchInvariant));
  std::vector<std::vector<float>> logits;
  int64_t pos = 0;
  for (const int64_t n : pieces) {
    const auto piece = tokens.subspan(static_cast<size_t>(pos), static_cast<size_t>(n));
    forward.run({.tokens = piece, .first_pos = pos}, nullptr);
    logits.push_back(engine.read(forward.logits(), engine.model.config().vocab));
    pos += n;
  }
  return logits;
}

TEST_F(TogetherTest, SequencesGoOnWhereverEachOfThemIs) {
  const std::vector<std::vector<int64_t>> pieces{{4, 1, 3}, {1, 1, 1}, {2, 7, 5}, {9, 2, 1}};
  std::vector<std::vector<int32_t>> tokens;
  std::vector<std::vector<std::vector<float>>> expected;
  for (size_t i = 0; i < pieces.size(); ++i) {
    tokens.push_back(model_.tokens(16, i + 7));
    expected.push_back(logits_alone(engine_, tokens.back(), pieces[i]));
  }
  constexpr int64_t kRows = 20;
  KvCache cache(model_.config(), 2, *engine_.backend, 4 * kRows);
  cache.poison(0, cache.all_rows());
  Forward forward(engine_.model, engine_.weights, *engine_.backend, cache,
                  engine_.options(Mode::kBatchInvariant));
  std::vector<int64_t> pos(pieces.size());
  for (size_t round = 0; round < 3; ++round) {
    std::vector<int32_t> all;
    std::vector<Stretch> stretches;
    std::vector<size_t> order{0, 1, 2, 3};
    std::rotate(order.begin(), order.begin() + static_cast<ptrdiff_t>(round), order.end());
    for (const size_t i : order) {
      const int64_t n = pieces[i][round];
      const auto first = tokens[i].begin() + pos[i];
      all.insert(all.end(), first, first + n);
      const auto row = cache.rows() + static_cast<int64_t>(i) * kRows;
      stretches.push_back({n, pos[i], row, kRows});
      pos[i] += n;
    }
    forward.run({.tokens = all, .stretches = stretches}, nullptr);
    ASSERT_EQ(forward.n_logits(), 4);
    const int64_t vocab = model_.config().vocab;
    const std::vector<TopLogits> tops = forward.fetch(forward.top_read());
    for (size_t k = 0; k < order.size(); ++k) {
      const std::vector<float> got =
          engine_.read(forward.logits() + static_cast<int64_t>(k) * vocab, vocab);
      const std::vector<float>& wanted = expected[order[k]][round];
      EXPECT_TRUE(std::ranges::equal(got, wanted)) << "sequence " << order[k] << ", " << round;
      EXPECT_EQ(tops[k].values[0], *std::max_element(wanted.begin(), wanted.end()));
    }
  }
}

TEST_F(TogetherTest, SequencesThatDoNotFitAreRefusedWithTheNumbers) {
  KvCache cache(model_.config(), 4, *engine_.backend, 10);
  Forward forward(engine_.model, engine_.weights, *engine_.backend, cache,
                  engine_.options(Mode::kAsDesigned));
  const std::vector<int32_t> tokens = model_.tokens(6);
  const auto refusal = [&](std::vector<Stretch> stretches, int64_t n_logits = 1) -> std::string {
    try {
      forward.run({.tokens = tokens, .stretches = stretches, .n_logits = n_logits}, nullptr);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({{3, 0, 5, 4}, {3, 1, 9, 5}}), "");
  EXPECT_NE(refusal({{3, 0, 5, 4}, {2, 0, 9, 5}}).find("6 tokens whose sequences have 5"),
            std::string::npos);
  EXPECT_NE(refusal({{3, 0, 5, 3}, {3, 0, 9, 5}}).find("positions 0 to 2"), std::string::npos);
  EXPECT_NE(refusal({{3, 0, 5, 4}, {3, 0, 12, 4}}).find("a KV cache of 15"), std::string::npos);
  EXPECT_NE(refusal({{3, 0, -1, 4}, {3, 0, 9, 5}}), "");
  EXPECT_NE(refusal({{0, 0, 5, 4}, {6, 0, 5, 7}}), "");
  EXPECT_NE(refusal({{3, 0, 5, 4}, {3, 0, 9, 5}}, 2), "");
}

TEST(KvCache, CopiesRowsOfEveryLayer) {
  const TestModel model(small_shape());
  const TestEngine engine(model, 1);
  KvCache cache(model.config(), 3, *engine.backend, 5);
  const int64_t width = cache.width();
  const auto words = [](const KvRows& rows) { return words_of(rows, 0).data(); };
  EXPECT_EQ(cache.all_rows(), 9);
  for (int layer = 0; layer < 3; ++layer) {
    engine.backend->fill(words(cache.k(layer) + 4 * width), 2 * width,
                         static_cast<float>(1 + layer));
    engine.backend->fill(words(cache.v(layer) + 4 * width), 2 * width,
                         static_cast<float>(-1 - layer));
  }
  cache.copy(4, 2, 1);
  cache.poison(4, 5);
  for (int layer = 0; layer < 3; ++layer) {
    const std::vector<float> expected(static_cast<size_t>(2 * width),
                                      static_cast<float>(1 + layer));
    EXPECT_EQ(engine.read(words(cache.k(layer) + width), 2 * width), expected);
    EXPECT_EQ(engine.read(words(cache.v(layer) + width), 1)[0], static_cast<float>(-1 - layer));
    EXPECT_TRUE(std::isnan(engine.read(words(cache.v(layer) + 8 * width), width).back()));
  }
}

// ---- Groups.

TEST(PromptGroups, TakePromptsInTheirOrderAsFarAsTheyFit) {
  const std::vector<int64_t> lengths{5, 1, 9, 12, 1, 30, 3, 17, 8};
  using Sizes = std::vector<size_t>;
  EXPECT_EQ(group_sizes(lengths, {1, 100}), Sizes(9, 1));
  EXPECT_EQ(group_sizes(lengths, {7, 28}), (Sizes{5, 1, 3}));
  EXPECT_EQ(group_sizes(lengths, {2, 28}), (Sizes{2, 2, 1, 1, 2, 1}));
  EXPECT_EQ(group_sizes(lengths, {100, 1000}), Sizes{9});
  EXPECT_EQ(group_sizes(lengths, {100, 1}), (Sizes{1, 1, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(group_sizes({}, {7, 28}), Sizes{});
  const GroupExtent extent = extent_of(lengths, {7, 28});
  EXPECT_EQ(extent.sequences, 5);
  EXPECT_EQ(extent.tokens, 28);
  EXPECT_EQ(extent.cache_rows, 33);
  EXPECT_EQ(extent_of(lengths, {1, 28}).cache_rows, 0);
}

TEST(PromptGroups, AreAsLargeAsMemoryAllows) {
  const TestModel model(small_shape());
  const std::vector<int64_t> lengths(20, 10);
  const GroupLimits limits{16, 1000};
  constexpr int64_t kKept = 1 << 20;
  const auto fit = [&](int64_t bytes) {
    return sequences_that_fit(model.config(), lengths, limits, kKept, bytes);
  };
  EXPECT_EQ(fit(int64_t{1} << 40), 16);
  EXPECT_EQ(fit(0), 1);
  for (const int64_t n : {2, 4, 8}) {
    const int64_t bytes = probe_bytes(model.config(), lengths, {n, 1000}, kKept);
    EXPECT_EQ(fit(bytes + bytes / 8), n);
    EXPECT_LT(fit(bytes), n);  // some is left to others
  }
}

TEST(PromptGroups, OfALongPromptLeaveNoRoomForOthers) {
  const TestModel model(small_shape());
  const std::vector<int64_t> lengths{100'000, 1, 1};
  const int64_t alone = probe_bytes(model.config(), lengths, {1, 512}, 1 << 20);
  EXPECT_EQ(sequences_that_fit(model.config(), lengths, {2, 512}, 1 << 20, alone), 1);
}

}  // namespace
}  // namespace greta
