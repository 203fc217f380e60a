// How fast rows are fingerprinted and stored through the C API. Prints "what<tab>figure" lines.
//   trace_bench FOLDER
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "include/greta_trace.h"

namespace {

using Clock = std::chrono::steady_clock;

void require(greta_status status) {
  if (status == GRETA_OK) return;
  std::fprintf(stderr, "%s\n", greta_error_text());
  std::exit(2);
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Of this thread, or of all: what others do on a busy machine does not count.
double cpu_seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// GB of values in a second of a core, the best of five.
double fingerprinted(greta_dtype dtype, size_t n) {
  const size_t bytes = dtype == GRETA_F32 ? 4 : 2;
  std::vector<float> row(n);
  for (size_t i = 0; i < n; ++i) row[i] = std::sin(static_cast<float>(i)) * 3;
  greta_fingerprint print = GRETA_FINGERPRINT_INIT;
  const int repeats = static_cast<int>((size_t{1} << 27) / (n * bytes)) + 1;
  double best = 0;
  for (int round = 0; round < 5; ++round) {
    const double begin = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < repeats; ++i) {
      require(greta_fingerprint_values(dtype, row.data(), n, &print));
    }
    const double seconds = cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - begin;
    best = std::max(best,
                    static_cast<double>(repeats) * static_cast<double>(n * bytes) / seconds / 1e9);
  }
  return best;
}

/// Rows in a second, from the first call until all is committed, and in a second of a core of both
/// threads; n values each, or with 0 a fingerprint that is there.
void print_stored(const char* name, const std::string& path, greta_kind kind, size_t n,
                  int64_t rows) {
  greta_trace* trace = nullptr;
  greta_run* run = nullptr;
  require(greta_trace_open(path.c_str(), kind, &trace));
  greta_run_info info = GRETA_RUN_INFO_INIT;
  info.experiment = "bench";
  require(greta_run_begin(trace, &info, &run));
  std::vector<float> values(n == 0 ? 8 : n, 0.5f);
  greta_fingerprint print = GRETA_FINGERPRINT_INIT;
  require(greta_fingerprint_values(GRETA_F32, values.data(), values.size(), &print));
  greta_row row = GRETA_ROW_INIT;
  row.tensor = "attn_out";
  row.phase = GRETA_PREFILL;
  const auto begin = Clock::now();
  const double cpu_begin = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
  for (int64_t i = 0; i < rows; ++i) {
    row.layer = static_cast<int32_t>(i % 32);
    row.pos_id = i / 32;
    values[0] = static_cast<float>(i);
    print.hash = static_cast<uint64_t>(i) + 1;  // 0 is of no values, which these are not
    require(n == 0 ? greta_run_add_fingerprint(run, &row, &print)
                   : greta_run_add_values(run, &row, GRETA_F32, values.data(), n));
  }
  require(greta_run_flush(run));
  const double cpu = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_begin;
  std::printf("%s\t%.0f\n%s_of_cpu\t%.0f\n", name, static_cast<double>(rows) / seconds_since(begin),
              name, static_cast<double>(rows) / cpu);
  require(greta_run_end(run, GRETA_COMPLETE));
  require(greta_trace_close(trace));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: trace_bench FOLDER\n");
    return 2;
  }
  const std::string folder = argv[1];
  std::printf("f32_gb_per_s\t%.2f\n", fingerprinted(GRETA_F32, 4096));
  std::printf("f32_long_gb_per_s\t%.2f\n", fingerprinted(GRETA_F32, 1 << 17));
  std::printf("f16_gb_per_s\t%.2f\n", fingerprinted(GRETA_F16, 4096));
  std::printf("bf16_gb_per_s\t%.2f\n", fingerprinted(GRETA_BF16, 4096));
  constexpr int64_t kRows = 300'000;
  print_stored("fingerprints_per_s", folder + "/a.db", GRETA_DATABASE, 0, kRows);
  print_stored("rows_of_1024_per_s", folder + "/b.db", GRETA_DATABASE, 1024, kRows);
  print_stored("lines_per_s", folder + "/c.jsonl", GRETA_JSONL, 0, kRows);
  return 0;
}
