// Speed of the matrix products on a shape of a 1B model, by type and route.
//
//   matmul_bench [--benchmark_filter=q4_k/dot] ...
//
// Arguments of a benchmark: tokens, rows, columns, threads. weights/s is what bounds decoding,
// bytes/s what it asks of the memory, FLOP/s (two per product) what bounds prefill.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cpu/matmul.h"
#include "kernels/cpu/quantise.h"
#include "kernels/fingerprint/fingerprint.h"

namespace greta {
namespace {

using Product = void (*)(const Matrix&, const float*, int64_t, float*, ThreadPool&, Isa);

std::vector<float> uniform_values(int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(static_cast<int64_t>(mix64(i) >> 40) - (1 << 23)) * 0x1p-23f;
  }
  return values;
}

// Rows that repeat: quantising takes far longer than multiplying.
std::vector<std::byte> make_weights(const Matrix& shape) {
  constexpr int64_t kDistinctRows = 16;
  std::vector<std::byte> some(kDistinctRows * shape.row_bytes());
  quantise(shape.type, uniform_values(kDistinctRows * shape.cols), some);
  std::vector<std::byte> bytes(shape.bytes());
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = some[i % some.size()];
  return bytes;
}

void run(benchmark::State& state, WeightType type, Product product) {
  const int64_t n_tokens = state.range(0);
  Matrix w{type, nullptr, state.range(1), state.range(2)};
  const std::vector<std::byte> bytes = make_weights(w);
  w.data = bytes.data();
  const std::vector<float> x = uniform_values(n_tokens * w.cols);
  std::vector<float> out(static_cast<size_t>(n_tokens * w.rows));
  ThreadPool pool(static_cast<int>(state.range(3)));
  for (auto _ : state) {
    product(w, x.data(), n_tokens, out.data(), pool, best_isa());
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  const auto weights = static_cast<double>(w.rows) * static_cast<double>(w.cols);
  using benchmark::Counter;
  const auto rate = Counter::kIsIterationInvariantRate;
  state.counters["weights/s"] = Counter(weights, rate);
  state.counters["bytes/s"] = Counter(static_cast<double>(w.bytes()), rate);
  state.counters["FLOP/s"] = Counter(2 * weights * static_cast<double>(n_tokens), rate);
  state.SetLabel(isa_name(best_isa()));
}

// Decoding reads more weights than any cache holds.
constexpr int64_t kDecodeRows = 128 << 10;

void register_all() {
  for (const WeightTypeInfo& info : kWeightTypes) {
    const auto add = [&](const char* route, Product product) {
      const std::string name = std::string(info.name) + "/" + route;
      return benchmark::RegisterBenchmark(name.c_str(), run, info.type, product)
          ->ArgNames({"tokens", "rows", "cols", "threads"})
          ->UseRealTime()
          ->MeasureProcessCPUTime()
          ->Unit(benchmark::kMicrosecond);
    };
    for (const int64_t n_threads : {1, 2}) {
      add("dot", matmul_dot)->Args({1, kDecodeRows, 2048, n_threads});
      add("dot", matmul_dot)->Args({1, 2048, 2048, n_threads});
      add("dot", matmul_dot)->Args({128, 2048, 2048, n_threads});
      add("gemm", matmul_gemm)->Args({128, 2048, 2048, n_threads});
      add("gemm", matmul_gemm)->Args({128, 2048, 8192, n_threads});
      add("gemm", matmul_gemm)->Args({8, 2048, 2048, n_threads});
    }
  }
}

}  // namespace
}  // namespace greta

int main(int argc, char** argv) {
  greta::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
