// Speed of the GPU kernels, one by one.
//
//   gpu_kernel_bench [FILTER]     cases whose name contains FILTER; default: all
//
// Prints for each case the time of a run, and what is moved and computed at least, per second. A
// run is one of many in a recorded graph, so launches cost what they cost in the engine; of several
// replays the median counts.
#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "kernels/gpu/device.h"
#include "tests/bench/gpu/gpu_bench.h"

namespace greta {
namespace {

constexpr int kRuns = 20;  // in a graph
constexpr size_t kReplays = 7;

double median_microseconds(const BenchCase& bench, Stream& stream) {
  for (int i = 0; i < 2; ++i) bench.run(stream);
  stream.synchronize();
  Graph graph = Graph::capture(stream, [&] {
    for (int i = 0; i < kRuns; ++i) bench.run(stream);
  });
  graph.launch(stream);
  std::array<double, kReplays> times{};
  for (double& time : times) {
    Event start, end;
    start.record(stream);
    graph.launch(stream);
    end.record(stream);
    stream.synchronize();
    time = 1000.0 * static_cast<double>(end.milliseconds_since(start)) / kRuns;
  }
  std::nth_element(times.begin(), times.begin() + kReplays / 2, times.end());
  return times[kReplays / 2];
}

void measure(const BenchCase& bench, Stream& stream) {
  const double microseconds = median_microseconds(bench, stream);
  std::printf("%-48s %10.2f us %9.1f GB/s %9.2f TFLOP/s\n", bench.name.c_str(), microseconds,
              bench.bytes / microseconds * 1e-3, bench.flops / microseconds * 1e-6);
  std::fflush(stdout);
}

void measure_all(const std::string& filter) {
  Stream stream;
  for (const auto cases : {small_cases, matmul_valu_cases, attention_cases, matmul_mfma_cases}) {
    // A family's buffers are gone before the next one's are made.
    for (const BenchCase& bench : cases()) {
      if (bench.name.find(filter) != std::string::npos) measure(bench, stream);
    }
  }
}

}  // namespace
}  // namespace greta

int main(int argc, char** argv) {
  if (argc > 2) {
    std::fputs("usage: gpu_kernel_bench [FILTER]\n", stderr);
    return 2;
  }
  if (greta::device_count() == 0) {
    std::fputs("no GPU can be used\n", stderr);
    return 2;
  }
  try {
    const greta::DeviceInfo device = greta::device_info();
    std::printf("%s, %s\n", device.name.c_str(), device.architecture.c_str());
    greta::measure_all(argc == 2 ? argv[1] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_kernel_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
