// Speed of greta's forward pass on a GGUF file; script/bench runs it beside llama.cpp.
//
//   engine_bench MODEL P G THREADS      prefill of P tokens and decode of G: two numbers, tokens per second
//   engine_bench MODEL --tracing THREADS    seconds of a probe and of traced decoding, with and without
//
// The decode tokens are fixed, so that no sampling is timed.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/forward.h"
#include "engine/run_writer.h"

namespace greta {
namespace {

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Engine {
  GgufFile file;
  Model model;
  std::unique_ptr<Backend> backend;
  ModelWeights weights;
  KvCache cache;
  Forward forward;

  Engine(const char* path, int threads, int64_t positions)
      : file(GgufFile::open(path)), model(file), backend(make_cpu_backend(threads)),
        weights(upload_weights(model, *backend)), cache(model.config(), positions, *backend),
        forward(model, weights, *backend, cache,
                {.mode = Mode::kAsDesigned,
                 .routes = choose_routes(*backend, Mode::kAsDesigned, {}),
                 .faults = {}}) {}

  int32_t token(int64_t i) const {
    return static_cast<int32_t>((i * 7919 + 13) % model.config().vocab);
  }

  double prefill(int64_t n) {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < n; ++i) tokens.push_back(token(i));
    const double start = seconds();
    for (int64_t first = 0; first < n; first += 512) {
      const int64_t count = std::min<int64_t>(512, n - first);
      forward.run({.tokens = std::span(tokens).subspan(static_cast<size_t>(first),
                                                       static_cast<size_t>(count)),
                   .first_pos = first},
                  nullptr);
    }
    return seconds() - start;
  }

  /// Seconds of n decode steps from position first on; traced rows go to the sink.
  double decode(int64_t first, int64_t n, Tracer* tracer, TraceSink* sink) {
    const double start = seconds();
    for (int64_t i = 0; i < n; ++i) {
      const int32_t id = token(31 * i + 5);
      if (tracer != nullptr) tracer->begin({&id, 1}, first + i, Phase::kDecode, {}, i + 1);
      forward.run({.tokens = {&id, 1}, .first_pos = first + i, .decode = true}, tracer);
      if (tracer != nullptr) sink->rows(tracer->take());
    }
    return seconds() - start;
  }
};

void speed(const char* path, int64_t n_prompt, int64_t n_decode, int threads) {
  Engine engine(path, threads, n_prompt + n_decode);
  engine.prefill(n_prompt);  // warms up
  const double prefill = engine.prefill(n_prompt);
  engine.decode(n_prompt, 1, nullptr, nullptr);
  const double decode = engine.decode(n_prompt, n_decode, nullptr, nullptr);
  std::printf("%.2f %.2f\n", static_cast<double>(n_prompt) / prefill,
              static_cast<double>(n_decode) / decode);
}

/// Decode with every layer and tensor traced against decode untraced, in turns, so that a change of
/// the machine's load meets both.
void traced_decode(Engine& engine, int64_t cached, bool scores, const char* label) {
  constexpr int64_t kSteps = 16;
  constexpr int kTurns = 4;
  TraceSelection selection;
  selection.phases = {Phase::kDecode};
  for (int p = 0; p < kTracePoints; ++p) {
    const auto point = static_cast<TracePoint>(p);
    const bool of_scores = point == TracePoint::kAttnScores || point == TracePoint::kAttnProbs;
    if (scores || !of_scores) selection.points.push_back(point);
  }
  Tracer tracer(selection, *engine.backend);
  const std::filesystem::path db =
      std::filesystem::temp_directory_path() / ("greta-bench-" + std::to_string(std::rand()) + ".db");
  double plain = 0;
  double traced = 0;
  {
    RunRecord run;
    run.experiment = "bench";
    run.date = "2000-01-01";
    run.mode = "as_designed";
    run.dtype = "f32";
    RunWriter writer(db, run);
    PromptRecord prompt;
    prompt.name = "bench";
    writer.begin_prompt(prompt);
    for (int turn = 0; turn < kTurns; ++turn) {
      const int64_t first = cached + 2 * turn * kSteps;
      plain += engine.decode(first, kSteps, nullptr, nullptr);
      traced += engine.decode(first + kSteps, kSteps, &tracer, &writer);
    }
    const double start = seconds();
    writer.end(true);
    traced += seconds() - start;
  }
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(db.string() + suffix);
  std::printf("%s: untraced %.2f ms/token, traced %.2f ms/token, overhead %.1f %%\n", label,
              1e3 * plain / (kTurns * kSteps), 1e3 * traced / (kTurns * kSteps),
              100 * (traced / plain - 1));
}

}  // namespace
}  // namespace greta

int main(int argc, char** argv) {
  using namespace greta;
  try {
    if (argc == 5) {
      speed(argv[1], std::atoll(argv[2]), std::atoll(argv[3]), std::atoi(argv[4]));
      return 0;
    }
    if (argc == 4 && std::strcmp(argv[2], "--tracing") == 0) {
      Engine engine(argv[1], std::atoi(argv[3]), 2048 + 256);
      engine.prefill(2048);
      traced_decode(engine, 0, true, "all layers, all tensors, up to 128 cached positions");
      traced_decode(engine, 2048, false, "all layers, no scores and probs, from 2,048 cached on");
      return 0;
    }
    std::fputs("usage: engine_bench MODEL P G THREADS | engine_bench MODEL --tracing THREADS\n", stderr);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "engine_bench: %s\n", error.what());
    return 1;
  }
}
