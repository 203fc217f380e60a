// The GPU backend under the whole engine, on the emulator or on a GPU: against the CPU backend, and
// against itself.

#include "engine/hip/backend.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/probe/generate.h"
#include "engine/record/run_writer.h"
#include "kernels/cpu/dequantise.h"
#include "kernels/cpu/quantise.h"
#include "kernels/gpu/device.h"
#include "tests/engine/forward/reference_f64.h"
#include "tests/engine/forward/routes_by.h"
#include "tests/engine/forward/tampered_backend.h"
#include "tests/engine/probe/exact_pairs.h"
#include "tests/engine/probe/half_cache.h"
#include "tests/engine/probe/told.h"
#if defined(GRETA_TEST_ON_EMULATOR)
#include "tests/emulator/emulator.h"
#endif

namespace greta {
namespace {

/// Two layers, odd sizes where a storage type allows them.
SynthShape tiny_shape() {
  SynthShape shape = small_shape();
  shape.n_layers = 2;
  shape.n_heads = 4;
  shape.n_kv_heads = 2;
  shape.ffn_dim = 256;
  shape.vocab = 515;
  return shape;
}

/// Logits of every token of a prompt, then of some more, one at a time.
std::vector<float> logits(const TestEngine& engine, const RouteTable& routes,
                          const std::vector<int32_t>& tokens, int64_t n_decode) {
  KvCache cache(engine.model.config(), 40, *engine.backend);
  Forward forward(engine.model, engine.weights, *engine.backend, cache,
                  {.mode = Mode::kAsDesigned, .routes = routes, .faults = {}, .max_batch = 64});
  const auto n = static_cast<int64_t>(tokens.size()) - n_decode;
  const std::span<const int32_t> all(tokens);
  const int64_t vocab = engine.model.config().vocab;
  forward.run({.tokens = all.first(static_cast<size_t>(n)), .n_logits = n}, nullptr);
  std::vector<float> values = engine.read(forward.logits(), n * vocab);
  for (int64_t i = n; i < n + n_decode; ++i) {
    forward.run({.tokens = all.subspan(static_cast<size_t>(i), 1), .first_pos = i, .decode = true},
                nullptr);
    const std::vector<float> row = engine.read(forward.logits(), vocab);
    values.insert(values.end(), row.begin(), row.end());
  }
  return values;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  return relative_l2(widen(a), widen(b));
}

TEST(HipBackend, LogitsByVectorUnitsAreThoseOfTheCpu) {
  for (const std::string& type : synth_type_names()) {
    const TestModel model(tiny_shape(), type);
    const TestEngine cpu(model);
    const TestEngine gpu(model, make_hip_backend());
    const std::vector<int32_t> tokens = model.tokens(9);
    const auto expected = logits(cpu, cpu.options(Mode::kBatchInvariant).routes, tokens, 3);
    const auto got = logits(gpu, routes_by(*gpu.backend, Route::kValu, Route::kValu), tokens, 3);
    EXPECT_LT(distance(got, expected), 1e-5) << type;
  }
}

/// Stored weights of which no two pieces are alike.
std::vector<std::byte> any_weights(WeightType type, int64_t rows, int64_t cols) {
  std::vector<float> values(static_cast<size_t>(rows * cols));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((i * 7919 + i / 4099) % 65'521) / 4096;
  }
  std::vector<std::byte> stored(Matrix{type, nullptr, rows, cols}.bytes());
  quantise(type, values, stored);
  return stored;
}

TEST(HipBackend, WeightsOfManyPiecesArriveWholeAndInTheirPlaces) {
  constexpr int64_t kCols = 1024;
  // More pieces of 2 MiB than there are slots for; what ends with a piece, and what is less than
  // one.
  const std::vector<std::pair<WeightType, int64_t>> shapes = {
      {WeightType::kF32, 3},   {WeightType::kF32, 20'001}, {WeightType::kQ8_0, 2500},
      {WeightType::kF32, 512}, {WeightType::kQ4_K, 4000},  {WeightType::kF32, 1025}};
  std::vector<std::vector<std::byte>> stored;
  std::vector<Matrix> host;
  int64_t size_bytes = 0;
  for (const auto& [type, rows] : shapes) {
    stored.push_back(any_weights(type, rows, kCols));
    host.push_back({type, stored.back().data(), rows, kCols});
    size_bytes += static_cast<int64_t>(host.back().bytes());
  }
  const std::unique_ptr<Backend> gpu = make_hip_backend();
  int64_t told = 0;
  const std::vector<Matrix> uploaded = gpu->upload(host, [&](int64_t done, int64_t all) {
    EXPECT_GT(done, told);
    EXPECT_EQ(all, size_bytes);
    told = done;
  });
  EXPECT_EQ(told, size_bytes);
  ASSERT_EQ(uploaded.size(), host.size());
  for (size_t i = 0; i < host.size(); ++i) {
    const auto& [type, rows] = shapes[i];
    if (type == WeightType::kF32) {
      std::vector<float> values(static_cast<size_t>(rows * kCols));
      gpu->read(reinterpret_cast<const float*>(uploaded[i].data), rows * kCols, values.data());
      EXPECT_EQ(std::memcmp(values.data(), stored[i].data(), stored[i].size()), 0) << i;
      continue;
    }
    const std::vector<int32_t> ids = {0, 1, static_cast<int32_t>(rows / 2),
                                      static_cast<int32_t>(rows - 1)};
    const auto n = static_cast<int64_t>(ids.size()) * kCols;
    const Buffer out = gpu->allocate(n);
    const Stretch stretch{.n_tokens = std::ssize(ids)};
    gpu->begin_batch(ids, {&stretch, 1});
    gpu->embed(uploaded[i], 0, out.get());
    gpu->end_batch();
    std::vector<float> values(static_cast<size_t>(n)), expected(kCols);
    gpu->read(out.get(), n, values.data());
    for (size_t k = 0; k < ids.size(); ++k) {
      const size_t row_bytes = stored[i].size() / static_cast<size_t>(rows);
      dequantise(type,
                 std::span(stored[i]).subspan(row_bytes * static_cast<size_t>(ids[k]), row_bytes),
                 expected);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                             values.begin() + static_cast<std::ptrdiff_t>(k) * kCols))
          << i << " " << k;
    }
  }
}

TEST(HipBackend, AnUploadThatIsStoppedLeavesTheBackendUsable) {
  const std::vector<std::byte> stored = any_weights(WeightType::kF32, 20'000, 1024);
  const Matrix host{WeightType::kF32, stored.data(), 20'000, 1024};
  const std::unique_ptr<Backend> gpu = make_hip_backend();
  const auto stop = [](int64_t done, int64_t all) {
    if (2 * done > all) throw std::runtime_error("stopped");
  };
  EXPECT_THROW(gpu->upload({&host, 1}, stop), std::runtime_error);
  const Matrix uploaded = gpu->upload({&host, 1}, {}).front();
  std::vector<float> values(20'000 * 1024);
  gpu->read(reinterpret_cast<const float*>(uploaded.data), std::ssize(values), values.data());
  EXPECT_EQ(std::memcmp(values.data(), stored.data(), stored.size()), 0);
}

TEST(HipBackend, LogitsByMatrixCoresAreNearThoseOfTheCpu) {
  for (const std::string& type : synth_type_names()) {
    const TestModel model(tiny_shape(), type);
    const TestEngine cpu(model);
    const TestEngine gpu(model, make_hip_backend());
    const std::vector<int32_t> tokens = model.tokens(20);
    const auto expected = logits(cpu, cpu.options(Mode::kBatchInvariant).routes, tokens, 1);
    for (const Route route : gpu.backend->routes(Op::kQkv)) {
      if (route == Route::kValu) continue;
      const auto got = logits(gpu, routes_by(*gpu.backend, route, Route::kMfma), tokens, 1);
      const double bound = type == "bf16" ? 2e-2 : 2e-3;
      EXPECT_LT(distance(got, expected), bound) << type << " " << route_name(route);
      EXPECT_GT(distance(got, expected), 0) << "another route was taken";
    }
  }
}

TEST(HipBackend, BatchInvariantProbesAgreeInEveryBit) {
  for (const char* type : {"f16", "q4_k_m", "q5_0", "q5_1", "iq4_nl", "q2_k", "q3_k"}) {
    const TestModel model(tiny_shape(), type);
    const TestEngine gpu(model, make_hip_backend());
    for (const int64_t n : {1, 7}) {
      const MemorySink sink =
          run_probe(gpu, probe_options(gpu, Mode::kBatchInvariant), model.tokens(n));
      EXPECT_GT(sink.of(Phase::kDecode0).size(), 40u);
      for (const RowKey& key : differences(sink)) ADD_FAILURE() << type << ": " << row_name(key);
      for (const TraceRecord& row : sink.records) EXPECT_TRUE(is_finite(row.fingerprint));
    }
  }
}

/// Prompts together against each by itself. routes: nullptr for those of the mode.
void expect_same_together(const std::string& type, Mode mode, const RouteTable* routes) {
  const TestModel model(tiny_shape(), type);
  const TestEngine gpu(model, make_hip_backend());
  ProbeOptions options = probe_options(gpu, mode);
  options.selection.sample_values = 4;
  options.decode_steps = 2;
  options.forward.max_batch = 19;
  if (routes != nullptr) options.forward.routes = *routes;
  std::vector<ProbePrompt> suite = prompts_of(model, std::array<int64_t, 6>{5, 1, 3, 1, 9, 21});
  suite[2].decode_steps = 0;  // the others go on without it
  suite[3].tokens = suite[1].tokens;
  const ToldSink alone = told(gpu, options, suite, 1);
  EXPECT_GT(alone.of("row").size(), 6u * 2 * 40) << type;
  for (const int64_t sequences : {2, 7}) {
    ToldSink together = told(gpu, options, suite, sequences);
    std::erase_if(together.lines, [](const std::string& line) {
      return line.starts_with("attribute prefilled_together");
    });
    expect_same(alone, together, type + ", at a time " + std::to_string(sequences));
  }
}

TEST(HipBackend, PromptsTogetherHaveTheBitsOfEachAlone) {
  for (const char* type : {"f16", "q4_k_m"}) {
    expect_same_together(type, Mode::kBatchInvariant, nullptr);
  }
}

TEST(HipBackend, PromptsTogetherByVectorUnitsHaveTheBitsOfEachAlone) {
  const TestModel model(tiny_shape());
  const TestEngine gpu(model, make_hip_backend());
  const RouteTable routes = routes_by(*gpu.backend, Route::kValu, Route::kValu);
  expect_same_together("q8_0", Mode::kBatchInvariant, &routes);
  expect_same_together("q8_0", Mode::kAsDesigned, &routes);  // each token decoded by itself
}

TEST(HipBackend, ACacheInF16AgreesInEveryBitOfABatchInvariantProbe) {
  for (const char* type : {"f16", "q4_k_m"}) {
    const TestModel model(tiny_shape(), type);
    expect_half_cache_is_invariant(model, TestEngine(model, make_hip_backend()));
  }
  SynthShape qwen = tiny_shape();  // RoPE and the stores are launches of their own
  qwen.architecture = "qwen2";
  const TestModel other(qwen, "q8_0");
  expect_half_cache_is_invariant(other, TestEngine(other, make_hip_backend()));
}

TEST(HipBackend, ACacheInF16IsTheCpusByVectorUnits) {
  const TestModel model(tiny_shape(), "q8_0");
  const TestEngine cpu(model), gpu(model, make_hip_backend());
  ProbeOptions options = half_cache_options(cpu, Mode::kBatchInvariant);
  options.decode_steps = 3;  // of which the last is replayed
  const MemorySink expected = run_probe(cpu, options, model.tokens(9));
  options.forward.routes = routes_by(*gpu.backend, Route::kValu, Route::kValu);
  const MemorySink got = run_probe(gpu, options, model.tokens(9));
  for (int64_t pos = 8; pos < 12; ++pos) {
    const Phase phase = pos == 8 ? Phase::kDecode0 : Phase::kDecode;
    const auto want = expected.of(phase, pos), have = got.of(phase, pos);
    ASSERT_EQ(want.size(), have.size());
    for (const auto& [key, row] : want) {
      // A value that lies between two halves may be rounded to either.
      EXPECT_LT(distance(have.at(key)->sample, row->sample), 1e-3) << row_name(key) << ", " << pos;
    }
  }
}

/// Of other architectures, as small as tiny_shape().
std::vector<NamedShape> other_tiny_shapes() {
  std::vector<NamedShape> shapes = other_shapes();
  for (NamedShape& one : shapes) {
    SynthShape tiny = tiny_shape();
    tiny.architecture = one.shape.architecture;
    tiny.head_dim = one.shape.head_dim;
    tiny.tied = one.shape.tied;
    tiny.rope_theta = one.shape.rope_theta;
    tiny.rope_freqs = one.shape.rope_freqs;
    tiny.rope_scaling = one.shape.rope_scaling;
    tiny.rope_attn_factor = one.shape.rope_attn_factor;
    tiny.original_context = one.shape.original_context;
    if (one.shape.window > 0) tiny.window = 3;
    if (!one.shape.windowed.empty()) {
      for (int64_t layer = 0; layer < tiny.n_layers; ++layer)
        tiny.windowed.push_back(layer % 2 == 0);
    }
    one.shape = tiny;
  }
  return shapes;
}

TEST(HipBackend, OtherArchitecturesAreThoseOfTheCpu) {
  for (const NamedShape& one : other_tiny_shapes()) {
    const TestModel model(one.shape, one.type);
    const TestEngine cpu(model);
    const TestEngine gpu(model, make_hip_backend());
    const std::vector<int32_t> tokens = model.tokens(9);
    const auto expected = logits(cpu, cpu.options(Mode::kBatchInvariant).routes, tokens, 3);
    const auto got = logits(gpu, routes_by(*gpu.backend, Route::kValu, Route::kValu), tokens, 3);
    EXPECT_LT(distance(got, expected), 1e-5) << one.name;
  }
}

TEST(HipBackend, OtherArchitecturesAgreeInEveryBitOfABatchInvariantProbe) {
  for (const NamedShape& one : other_tiny_shapes()) {
    const TestModel model(one.shape, one.type);
    const TestEngine gpu(model, make_hip_backend());
    ProbeOptions options = probe_options(gpu, Mode::kBatchInvariant);
    options.decode_steps = 2;
    const MemorySink sink = run_probe(gpu, options, model.tokens(5));
    for (int64_t pos = 4; pos < 7; ++pos) {
      EXPECT_GT(sink.of(Phase::kPrefillLast, pos).size(), 40u) << one.name;
      for (const RowKey& key : differences(sink, pos)) {
        ADD_FAILURE() << one.name << " at " << pos << ": " << row_name(key);
      }
    }
    for (const TraceRecord& row : sink.records) EXPECT_TRUE(is_finite(row.fingerprint));
  }
}

TEST(HipBackend, DecodedTokensHaveTheBitsOfTheirPrefill) {
  const TestModel model(tiny_shape(), "f16");
  const TestEngine gpu(model, make_hip_backend());
  for (const Mode mode : {Mode::kBatchInvariant, Mode::kKvAligned}) {
    ProbeOptions options = probe_options(gpu, mode);
    options.decode_steps = 3;
    const MemorySink sink = run_probe(gpu, options, model.tokens(4));
    for (int64_t pos = 4; pos < 7; ++pos) {
      EXPECT_GT(sink.of(Phase::kDecode, pos).size(), 40u);
      for (const RowKey& key : differences(sink, pos)) {
        const bool cached =
            key.first >= TracePoint::kKCache && key.first <= TracePoint::kVCacheRows;
        if (mode == Mode::kBatchInvariant || cached) ADD_FAILURE() << pos << ": " << row_name(key);
      }
    }
    for (const TraceRecord& row : sink.records) EXPECT_TRUE(is_finite(row.fingerprint));
  }
}

TEST(HipBackend, ComparesEveryPairValueByValue) {
  const TestModel model(tiny_shape(), "f16");
  const TestEngine gpu(model, make_hip_backend());
  for (const Mode mode : {Mode::kAsDesigned, Mode::kKvAligned}) {
    ProbeOptions options = probe_options(gpu, mode);
    options.decode_steps = 6;
    const int64_t replays = gpu.backend->replays();
    EXPECT_GT(expect_exact(run_probe(gpu, options, model.tokens(9))), 100);
    EXPECT_GT(gpu.backend->replays(), replays) << "also in batches that are replayed";
  }
}

TEST(HipBackend, HeadsOfAnOddLengthThatAreTurnedInPartAgreeInEveryBit) {
  SynthShape shape = tiny_shape();
  shape.head_dim = 33;
  shape.rope_dim = 20;
  const TestModel model(shape, "f16");
  const TestEngine cpu(model);
  const TestEngine gpu(model, make_hip_backend());
  const std::vector<int32_t> tokens = model.tokens(5);
  const MemorySink sink = run_probe(gpu, probe_options(gpu, Mode::kBatchInvariant), tokens);
  EXPECT_GT(sink.of(Phase::kDecode0).size(), 40u);
  for (const RowKey& key : differences(sink)) ADD_FAILURE() << row_name(key);
  const auto expected = logits(cpu, cpu.options(Mode::kBatchInvariant).routes, tokens, 1);
  const auto got = logits(gpu, routes_by(*gpu.backend, Route::kValu, Route::kValu), tokens, 1);
  EXPECT_LT(distance(got, expected), 1e-5);
}

TEST(HipBackend, RoutesAsDesignedDifferByRoundingOnly) {
  const TestModel model(tiny_shape(), "f16");
  const TestEngine gpu(model, make_hip_backend());
  for (const Mode mode : {Mode::kAsDesigned, Mode::kKvAligned}) {
    const MemorySink sink = run_probe(gpu, probe_options(gpu, mode), model.tokens(11));
    const auto prefill = sink.of(Phase::kPrefillLast), decode = sink.of(Phase::kDecode0);
    EXPECT_FALSE(differences(sink).empty());
    for (const auto& [key, row] : prefill) {
      ASSERT_TRUE(decode.contains(key)) << row_name(key);
      EXPECT_LT(distance(row->sample, decode.at(key)->sample), 1e-2) << row_name(key);
    }
  }
}

/// The greatest relative distance between rows of one phase of two runs.
double greatest_distance(const MemorySink& a, const MemorySink& b, Phase phase) {
  const auto left = a.of(phase), right = b.of(phase);
  EXPECT_EQ(left.size(), right.size());
  double greatest = 0;
  for (const auto& [key, row] : left) {
    if (!right.contains(key)) {
      ADD_FAILURE() << row_name(key) << " is missing";
      continue;
    }
    greatest = std::max(greatest, distance(row->sample, right.at(key)->sample));
  }
  return greatest;
}

TEST(HipBackend, EveryTracePointIsNearTheCpus) {
  const TestModel model(tiny_shape(), "q8_0");
  const TestEngine cpu(model);
  const TestEngine gpu(model, make_hip_backend());
  const std::vector<int32_t> tokens = model.tokens(6);
  const MemorySink expected = run_probe(cpu, probe_options(cpu, Mode::kBatchInvariant), tokens);
  ProbeOptions exact = probe_options(gpu, Mode::kAsDesigned);
  exact.forward.routes = routes_by(*gpu.backend, Route::kValu, Route::kValu);
  const MemorySink got = run_probe(gpu, exact, tokens);
  for (const Phase phase : {Phase::kPrefillLast, Phase::kDecode0}) {
    EXPECT_LT(greatest_distance(got, expected, phase), 1e-5);
  }
}

/// A traced generation: prefill, then one token after the other.
std::vector<MemorySink> decode_steps(const TestEngine& engine, std::span<const int32_t> tokens) {
  KvCache cache(engine.model.config(), 64, *engine.backend);
  Forward forward(engine.model, engine.weights, *engine.backend, cache,
                  engine.options(Mode::kAsDesigned));
  TraceSelection selection;
  selection.phases = {Phase::kDecode};
  selection.sample_values = 3;
  Tracer tracer(selection, *engine.backend);
  forward.run({.tokens = tokens.first(2)}, nullptr);
  std::vector<MemorySink> steps;
  for (size_t i = 2; i < tokens.size(); ++i) {
    const auto pos = static_cast<int64_t>(i);
    tracer.begin(tokens.subspan(i, 1), pos, Phase::kDecode, {}, pos);
    forward.run({.tokens = tokens.subspan(i, 1), .first_pos = pos, .decode = true}, &tracer);
    if (i > 2) steps.emplace_back().rows(tracer.take());  // of the token before
  }
  steps.emplace_back().rows(tracer.take());
  return steps;
}

TEST(HipBackend, ReplayedTokensAreTracedAfresh) {
  const TestModel model(tiny_shape(), "f16");
  const std::vector<int32_t> tokens(40, 7);  // the same token: only positions tell them apart
  const TestEngine replaying(model, make_hip_backend());
  const std::vector<MemorySink> replayed = decode_steps(replaying, tokens);
  EXPECT_GT(replaying.backend->replays(), 25);

  // Waiting after every operation keeps a batch from being recorded.
  auto tampered = std::make_unique<TamperedBackend>(make_hip_backend());
  TamperedBackend* const direct = tampered.get();
  direct->tamper = [&](std::string_view, float*, int64_t, const std::function<void()>& compute) {
    compute();
    direct->synchronize();
  };
  const TestEngine one_by_one(model, std::move(tampered));
  const std::vector<MemorySink> uncaptured = decode_steps(one_by_one, tokens);
  EXPECT_EQ(direct->replays(), 0);

  ASSERT_EQ(replayed.size(), uncaptured.size());
  for (size_t i = 0; i < replayed.size(); ++i) {
    const auto rows = replayed[i].of(Phase::kDecode), same = uncaptured[i].of(Phase::kDecode);
    ASSERT_EQ(rows.size(), same.size());
    for (const auto& [key, row] : rows) {
      EXPECT_TRUE(same_bits(row->fingerprint, same.at(key)->fingerprint))
          << row_name(key) << " of step " << i;
      EXPECT_EQ(row->sample.size(), std::min<size_t>(3, row->fingerprint.n));
      EXPECT_EQ(row->sample, same.at(key)->sample);
      EXPECT_EQ(row->pos_id, static_cast<int64_t>(i) + 2);
    }
    if (i == 0) continue;
    const auto before = replayed[i - 1].of(Phase::kDecode);
    for (const auto& [key, row] : rows) {
      const bool constant = key.first == TracePoint::kEmbdWHash ||
                            key.first == TracePoint::kEmbedOut ||
                            key.first == TracePoint::kRmsWeight;
      // What comes before RoPE and attention in layer 0 does not know the position.
      const bool knows_position =
          key.second != 0 || (key.first > TracePoint::kVProj && key.first != TracePoint::kVCache);
      // One value, which two positions can share.
      const bool single = key.first == TracePoint::kLogitsTop1;
      if (constant || !knows_position || single) continue;
      EXPECT_FALSE(same_bits(row->fingerprint, before.at(key)->fingerprint))
          << row_name(key) << " of steps " << i - 1 << " and " << i;
    }
  }
}

TEST(HipBackend, RowsOfAnyLengthAreFingerprintedAsTheyWereWhenQueued) {
  const auto backend = make_hip_backend();
  const std::array<int32_t, 2> tokens{1, 2};
  const Buffer few = backend->allocate(5), many = backend->allocate(70'000);
  const RowRef small{few.get(), 5}, large{many.get(), 70'000};
  const auto fill = [&](const RowRef& row, float value) {
    backend->fill(const_cast<float*>(row.data), row.n, value);
  };
  fill(small, 1);
  fill(large, 2);
  const Stretch stretch{.n_tokens = 2};
  backend->begin_batch(tokens, {&stretch, 1});
  backend->queue_fingerprints(std::array{small}, 3);
  fill(small, 3);
  backend->queue_fingerprints(std::array{large, small}, 3);
  fill(large, 4);
  fill(small, 5);
  backend->queue_fingerprints(std::array{small}, 3);
  fill(small, 6);
  backend->end_batch();
  const std::vector<FingerprintedRow> rows = backend->fetch_fingerprints();
  ASSERT_EQ(rows.size(), 4u);
  const std::array<std::pair<size_t, float>, 4> expected{{{5, 1}, {70'000, 2}, {5, 3}, {5, 5}}};
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto [n, value] = expected[i];
    EXPECT_TRUE(same_bits(rows[i].fingerprint, fingerprint(std::vector<float>(n, value)))) << i;
    EXPECT_EQ(rows[i].sample, std::vector<float>(3, value)) << i;
  }
}

/// A generation, its tokens and its trace.
struct Generation {
  std::vector<int32_t> tokens;
  GenerateResult result;
  MemorySink sink;
};
Generation generate(const TestModel& model, bool ahead, int64_t capacity, int32_t end_token,
                    bool traced) {
  auto backend = std::make_unique<TamperedBackend>(make_hip_backend());
  backend->may_run_ahead = ahead;
  const TestEngine engine(model, std::move(backend));
  GenerateOptions options{.forward = engine.options(Mode::kAsDesigned),
                          .sampler = {},
                          .selection = {},
                          .max_tokens = 12};
  options.selection.phases = {Phase::kPrefillLast, Phase::kDecode0, Phase::kDecode};
  Generator generator(engine.model, engine.weights, *engine.backend, capacity, options);
  Generation made;
  generator.on_token = [&](int32_t token) { made.tokens.push_back(token); };
  generator.ends = [&](int32_t token) { return token == end_token; };
  made.result = generator.run(model.tokens(5), traced ? &made.sink : nullptr);
  return made;
}

TEST(HipBackend, AskingForTheNextTokenBeforeThisOneIsKnownChangesNothing) {
  const TestModel model(tiny_shape(), "f16", 3);
  const std::vector<int32_t> usual = generate(model, false, 40, -1, false).tokens;
  ASSERT_EQ(usual.size(), 12u);
  const int32_t sixth = usual[5];
  const auto first =
      static_cast<size_t>(std::find(usual.begin(), usual.end(), sixth) - usual.begin());
  for (const bool traced : {false, true}) {
    for (const auto& [capacity, end_token, n_tokens] :
         {std::tuple<int64_t, int32_t, size_t>{40, -1, 12}, {40, sixth, first}, {9, -1, 5}}) {
      const Generation plain = generate(model, false, capacity, end_token, traced);
      const Generation ahead = generate(model, true, capacity, end_token, traced);
      EXPECT_EQ(ahead.tokens.size(), n_tokens);
      EXPECT_EQ(ahead.tokens, plain.tokens);
      EXPECT_EQ(ahead.result.stop, plain.result.stop);
      EXPECT_EQ(ahead.result.n_decoded, plain.result.n_decoded);
      ASSERT_EQ(ahead.sink.records.size(), plain.sink.records.size());
      EXPECT_EQ(plain.sink.records.empty(), !traced);
      for (size_t i = 0; i < plain.sink.records.size(); ++i) {
        const TraceRecord &a = ahead.sink.records[i], &b = plain.sink.records[i];
        EXPECT_TRUE(a.point == b.point && a.layer == b.layer && a.phase == b.phase);
        EXPECT_EQ(std::tuple(a.pos_id, a.token_id, a.step),
                  std::tuple(b.pos_id, b.token_id, b.step));
        EXPECT_TRUE(same_bits(a.fingerprint, b.fingerprint)) << row_name({a.point, a.layer});
      }
      ASSERT_EQ(ahead.sink.readouts.size(), plain.sink.readouts.size());
      for (size_t i = 0; i < plain.sink.readouts.size(); ++i) {
        EXPECT_EQ(ahead.sink.readouts[i].top1_id, plain.sink.readouts[i].top1_id);
        EXPECT_EQ(ahead.sink.readouts[i].pos_id, plain.sink.readouts[i].pos_id);
      }
    }
  }
}

TEST(HipBackend, TracingChangesNoBitOfTheResult) {
  const TestModel model(tiny_shape(), "q4_k");
  const TestEngine gpu(model, make_hip_backend());
  const std::vector<int32_t> tokens = model.tokens(6);
  KvCache cache(model.config(), 16, *gpu.backend);
  Forward forward(gpu.model, gpu.weights, *gpu.backend, cache, gpu.options(Mode::kAsDesigned));
  Tracer tracer({}, *gpu.backend);
  std::vector<std::vector<float>> results;
  for (const bool traced : {false, true}) {
    if (traced) tracer.begin(tokens, 0, Phase::kPrefillLast, {}, 0);
    forward.run({.tokens = tokens}, traced ? &tracer : nullptr);
    results.push_back(gpu.read(forward.logits(), model.config().vocab));
  }
  EXPECT_GT(tracer.take().size(), 40u);
  EXPECT_EQ(distance(results[0], results[1]), 0);
}

TEST(HipBackend, ArithmeticNamesTheNarrowestOperands) {
  const TestModel f16(tiny_shape(), "f16"), bf16(tiny_shape(), "bf16");
  const TestEngine a(f16, make_hip_backend()), b(bf16, make_hip_backend());
  EXPECT_EQ(a.backend->arithmetic(routes_by(*a.backend, Route::kValu, Route::kValu)), "f32");
  EXPECT_EQ(a.backend->arithmetic(a.options(Mode::kBatchInvariant).routes), "f16");
  EXPECT_EQ(a.backend->arithmetic(a.options(Mode::kAsDesigned).routes), "f16");
  EXPECT_EQ(b.backend->arithmetic(b.options(Mode::kAsDesigned).routes), "bf16");
}

#if defined(GRETA_TEST_ON_EMULATOR)

/// The device has so much memory while this lives.
class ScarceMemory {
 public:
  explicit ScarceMemory(size_t bytes) { emulator::set_memory_bytes(bytes); }
  ~ScarceMemory() { emulator::set_memory_bytes(before_); }

 private:
  size_t before_ = device_info().memory_bytes;
};

TEST(HipBackend, MemoryThatRunsOutIsSaidInOneLine) {
  const TestModel model(tiny_shape(), "f16");
  const ScarceMemory scarce(size_t{300} << 10);
  try {
    const TestEngine gpu(model, make_hip_backend());
    FAIL() << "the weights do not fit";
  } catch (const DeviceError& error) {
    const std::string text = error.what();
    for (const char* part : {"hipMalloc of ", " for weights failed", "KiB of 300 KiB are free"}) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
    EXPECT_EQ(text.find('\n'), std::string::npos);
  }
}

TEST(HipBackend, RunThatTheDeviceEndsIsMarkedFailed) {
  const TestModel model(tiny_shape(), "f16");
  const TestEngine gpu(model, make_hip_backend());
  const TemporaryFolder folder;
  RunRecord record;
  record.experiment = "oom";
  record.date = "2026-02-07";
  {
    Probe probe(gpu.model, gpu.weights, *gpu.backend, 8, probe_options(gpu, Mode::kAsDesigned));
    RunWriter writer(folder / "greta.db", record);
    const ScarceMemory scarce(0);
    EXPECT_THROW(probe.run({.name = "p", .text_sha256 = "", .tokens = model.tokens(8)}, writer),
                 DeviceError);
  }
  SQLite::Database db(folder / "greta.db");
  EXPECT_EQ(db.execAndGet("SELECT status FROM run").getString(), "failed");
  EXPECT_EQ(db.execAndGet("SELECT verdict FROM run_verdict").getString(), "INCOMPLETE");
}

#endif

}  // namespace
}  // namespace greta
