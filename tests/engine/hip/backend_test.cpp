// What the GPU backend computes under the whole engine, on the emulator or on a GPU: against the
// CPU backend, and against itself.
#include "engine/hip/backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/engine/engine_fixture.h"
#include "tests/engine/forward/reference_f64.h"
#include "tests/engine/forward/routes_by.h"
#include "tests/engine/probe/probe_fixture.h"
#include "tests/engine/probe/told.h"

namespace greta {
namespace {

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

}  // namespace
}  // namespace greta
