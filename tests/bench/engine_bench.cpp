// Speed of greta's engine on a GGUF file; script/bench-engine and script/gpu-bench run it.
//
//   engine_bench MODEL [--backend cpu|hip|auto] [--threads N] [--route OP=ROUTE[@PHASE]]...
//                [--mode MODE]         whose routes are the usual ones
//                [--kv-cache f16]
//                [--prefill P]...       prefill of P tokens
//                [--decode G --cached C]    G greedy tokens, after a prompt of C
//                [--trace-decode]       the same with every layer and tensor traced into a database
//                [--trace-probe]        a probe of C tokens: traced by default, and not at all
//                [--repeat R]
//
// Prints one figure per line: name, value, unit. Each is the median of R runs, or of pairs of
// probes; what is compared takes turns. A token counts when its id is known on the host; decode
// begins when the first one is.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/probe/generate.h"
#include "engine/probe/probe.h"
#include "engine/probe/suite.h"
#include "engine/record/run_queue.h"
#include "engine/session/session.h"

namespace greta {
namespace {

struct Options {
  std::string model, backend = "auto";
  int threads = 0;
  std::vector<std::string> routes;
  std::string mode = "as_designed", kv_cache = "f32";
  std::vector<int64_t> prefill;
  int64_t decode = 0, cached = 128, repeat = 3;
  bool trace_decode = false, trace_probe = false;
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void print(const std::string& name, double value, const char* unit) {
  std::printf("%s %.4g %s\n", name.c_str(), value, unit);
  std::fflush(stdout);
}

/// Takes everything and keeps nothing.
class NullSink final : public TraceSink {
 public:
  size_t begin_prompt(const PromptRecord&) override { return 0; }
  void rows(size_t, std::vector<TraceRecord>) override {}
  void readout(size_t, const ReadoutRecord&) override {}
  void end(bool) override {}
};

/// A run in a database of its own, which goes with it.
class BenchRun {
 public:
  BenchRun() : path_(std::filesystem::temp_directory_path() / "greta-bench.db") {
    remove();
    RunRecord run;
    run.experiment = "bench";
    run.date = "2000-01-01";
    run.mode = "as_designed";
    run.dtype = "f32";
    writer_.emplace(store_in_database(path_, run));
  }
  ~BenchRun() {
    writer_.reset();
    remove();
  }
  RunQueue& writer() { return *writer_; }

 private:
  void remove() const {
    for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
      std::filesystem::remove(path_.string() + suffix);
    }
  }
  std::filesystem::path path_;
  std::optional<RunQueue> writer_;
};

/// Counts what it hands on.
class CountingSink final : public TraceSink {
 public:
  explicit CountingSink(TraceSink& next) : next_(next) {}
  size_t begin_prompt(const PromptRecord& prompt) override { return next_.begin_prompt(prompt); }
  void rows(size_t prompt, std::vector<TraceRecord> rows) override {
    n_rows += rows.size();
    next_.rows(prompt, std::move(rows));
  }
  void readout(size_t prompt, const ReadoutRecord& readout) override {
    next_.readout(prompt, readout);
  }
  void end(bool complete) override { next_.end(complete); }

  size_t n_rows = 0;

 private:
  TraceSink& next_;
};

constexpr int64_t kProbePairs = 20;

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options), session_(options.model, options.backend, options.threads) {
    std::vector<RouteChoice> choices;
    for (const std::string& text : options.routes) choices.push_back(parse_route_choice(text));
    Backend& backend = session_.backend();
    routes_.emplace(choose_routes(backend, parse_mode(options.mode), choices));
    std::fprintf(stderr, "%s: %s, %s\n", options.model.c_str(), backend.device().c_str(),
                 routes_->text().c_str());
  }

  void run() {
    for (const int64_t n : options_.prefill) prefill(n);
    if (options_.decode > 0) decode();
    if (options_.trace_probe) probe();
  }

 private:
  std::vector<int32_t> prompt(int64_t n) const {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < n; ++i) {
      tokens.push_back(static_cast<int32_t>((i * 7919 + 13) % session_.model().config().vocab));
    }
    return tokens;
  }
  ForwardOptions forward(int64_t n) const {
    return {.mode = Mode::kAsDesigned,
            .routes = *routes_,
            .faults = {},
            .max_batch = std::min(n, session_.backend().usual_batch()),
            .kv_cache = parse_kv_type(options_.kv_cache)};
  }
  Generator generator(int64_t n_prompt, int64_t n_tokens, TraceSelection selection) {
    return Generator(session_.model(), session_.weights(), session_.backend(), n_prompt + n_tokens,
                     {.forward = forward(n_prompt),
                      .sampler = {},
                      .selection = std::move(selection),
                      .max_tokens = n_tokens});
  }

  void prefill(int64_t n) {
    Generator once = generator(n, 1, {});
    const std::vector<int32_t> tokens = prompt(n);
    once.run(tokens, nullptr);  // warms up
    std::vector<double> seconds;
    for (int64_t i = 0; i < options_.repeat; ++i) {
      const double start = now();
      once.run(tokens, nullptr);
      seconds.push_back(now() - start);
    }
    const std::string name = "prefill_" + std::to_string(n);
    print(name, static_cast<double>(n) / median(seconds), "tok/s");
    print(name + "_time", median(seconds), "s");
  }

  void decode() {
    const std::vector<int32_t> tokens = prompt(options_.cached);
    Generator plain = generator(options_.cached, options_.decode + 1, {});
    TraceSelection all;
    all.phases = {Phase::kDecode0, Phase::kDecode};
    all.compares = false;
    Generator traced = generator(options_.cached, options_.decode + 1, all);
    plain.run(tokens, nullptr);
    std::vector<double> plain_speed, traced_speed, rows_speed;
    for (int64_t i = 0; i < options_.repeat; ++i) {
      const GenerateResult result = plain.run(tokens, nullptr);
      plain_speed.push_back(static_cast<double>(result.n_decoded) / result.decode_s);
      if (!options_.trace_decode) continue;
      BenchRun run;
      CountingSink sink(run.writer());
      sink.begin_prompt({"bench", "", tokens, {}});
      const GenerateResult slower = traced.run(tokens, &sink);
      const double start = now();
      sink.end(true);  // what is not on disk yet counts
      const double seconds = slower.decode_s + now() - start;
      traced_speed.push_back(static_cast<double>(slower.n_decoded) / seconds);
      rows_speed.push_back(static_cast<double>(sink.n_rows) / seconds);
    }
    print("decode", median(plain_speed), "tok/s");
    if (!options_.trace_decode) return;
    print("decode_traced", median(traced_speed), "tok/s");
    print("decode_rows", median(rows_speed), "rows/s");
    print("decode_traced_ratio", median(traced_speed) / median(plain_speed), "of untraced");
  }

  double probe_seconds(Probe& probe) {
    NullSink sink;
    const ProbePrompt asked{.name = "bench", .text_sha256 = "", .tokens = prompt(options_.cached)};
    const double start = now();
    probe.run(asked, sink);
    session_.backend().synchronize();
    return now() - start;
  }

  void probe() {
    ProbeOptions off{.forward = forward(options_.cached), .selection = {}};
    off.selection.phases = {};
    ProbeOptions on = off;
    on.selection.phases = {Phase::kPrefillLast, Phase::kDecode0};
    on.selection.layers = {0, 1, 2, 4, 8};
    on.selection.points = find_suite("b3_66_v2").points;
    Probe untraced(session_.model(), session_.weights(), session_.backend(), options_.cached, off);
    Probe traced(session_.model(), session_.weights(), session_.backend(), options_.cached, on);
    probe_seconds(untraced);
    probe_seconds(traced);
    // A device's clock drifts by more than is looked for: many pairs, in either order.
    std::vector<double> ratios;
    for (int64_t i = 0; i < kProbePairs * options_.repeat; ++i) {
      const bool traced_first = i % 2 != 0;
      const double first = probe_seconds(traced_first ? traced : untraced);
      const double second = probe_seconds(traced_first ? untraced : traced);
      ratios.push_back(traced_first ? first / second : second / first);
    }
    print("probe_overhead", 100 * (median(ratios) - 1), "%");
  }

  const Options& options_;
  Session session_;
  std::optional<RouteTable> routes_;
};

int main_of(int argc, char** argv) {
  Options options;
  CLI::App app("Speed of prefill, decode and tracing");
  app.add_option("model", options.model, "GGUF file")->required();
  app.add_option("--backend", options.backend, "cpu, hip or auto (default)");
  app.add_option("--threads", options.threads, "CPU threads (default: one per core)");
  app.add_option("--route", options.routes, "OP=ROUTE[@prefill|@decode], may be repeated");
  app.add_option("--mode", options.mode, "as_designed (default), kv_aligned or batch_invariant");
  app.add_option("--kv-cache", options.kv_cache, "f32 (default) or f16");
  app.add_option("--prefill", options.prefill, "Tokens of a prompt; may be repeated");
  app.add_option("--decode", options.decode, "Tokens to decode");
  app.add_option("--cached", options.cached, "Tokens in the cache before (128)");
  app.add_option("--repeat", options.repeat, "Runs (3)")->check(CLI::PositiveNumber);
  app.add_flag("--trace-decode", options.trace_decode, "Decode with everything traced, too");
  app.add_flag("--trace-probe", options.trace_probe, "What the default tracing of a probe costs");
  CLI11_PARSE(app, argc, argv);
  Bench(options).run();
  return 0;
}

}  // namespace
}  // namespace greta

int main(int argc, char** argv) {
  try {
    return greta::main_of(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "engine_bench: %s\n", error.what());
    return 1;
  }
}
