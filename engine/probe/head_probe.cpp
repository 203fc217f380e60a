#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "engine/probe/probe.h"
#include "kernels/cpu/quantise.h"

namespace greta {
namespace {

int thread_count(int n_threads) {
  return n_threads > 0 ? n_threads
                       : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace

double relative_error(std::span<const float> given, std::span<const double> expected) {
  double apart = 0, a = 0, b = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto x = static_cast<double>(given[i]);
    apart += (x - expected[i]) * (x - expected[i]);
    a += x * x;
    b += expected[i] * expected[i];
  }
  const double error = apart == 0 ? 0 : std::sqrt(apart / std::max(a, b));
  return std::isfinite(error) ? error : kNotFinite;
}

HeadProbe::HeadProbe(const Model& model, int n_threads)
    : model_(model), pool_(thread_count(n_threads)) {}

std::vector<double> HeadProbe::norm(std::span<const float> hidden) const {
  double sum_sq = 0;
  for (const float x : hidden) sum_sq += static_cast<double>(x) * static_cast<double>(x);
  const double mean = sum_sq / static_cast<double>(hidden.size());
  const double scale = 1 / std::sqrt(mean + static_cast<double>(model_.config().rms_eps));
  const float* weight = model_.weights().output_norm;
  std::vector<double> normed(hidden.size());
  for (size_t i = 0; i < hidden.size(); ++i) {
    normed[i] = static_cast<double>(hidden[i]) * scale * static_cast<double>(weight[i]);
  }
  return normed;
}

RmsCheck HeadProbe::check_norm(std::span<const float> hidden, std::span<const float> given) const {
  RmsCheck check{.eps = static_cast<double>(model_.config().rms_eps)};
  for (const float x : hidden) check.sum_sq += static_cast<double>(x) * static_cast<double>(x);
  const std::vector<double> expected = norm(hidden);
  for (size_t i = 0; i < expected.size(); ++i) {
    const double error = std::abs(static_cast<double>(given[i]) - expected[i]);
    const double relative = error == 0 ? 0 : error / std::abs(expected[i]);
    if (relative > check.max_rel_err || std::isnan(relative)) check.max_rel_err = relative;
    if (std::isnan(relative)) break;
  }
  check.rel_l2 = relative_error(given, expected);
  return check;
}

std::vector<double> HeadProbe::logits(std::span<const float> hidden) {
  const std::vector<double> x = norm(hidden);
  const Matrix& w = model_.weights().output;
  std::vector<double> out(static_cast<size_t>(w.rows));
  constexpr int64_t kRowsPerPiece = 64;
  pool_.run(w.rows, kRowsPerPiece, [&](int64_t begin, int64_t end) {
    std::vector<float> row(static_cast<size_t>(w.cols));
    for (int64_t r = begin; r < end; ++r) {
      const std::byte* data = w.data + static_cast<size_t>(r) * w.row_bytes();
      dequantise(w.type, {data, w.row_bytes()}, row);
      double sum = 0;
      for (size_t i = 0; i < row.size(); ++i) sum += x[i] * static_cast<double>(row[i]);
      out[static_cast<size_t>(r)] = sum;
    }
  });
  return out;
}

int32_t HeadProbe::top1(std::span<const double> logits) {
  int32_t best = -1;
  double greatest = -std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > greatest || (best < 0 && !std::isnan(logits[i]))) {
      best = static_cast<int32_t>(i);
      greatest = logits[i];
    }
  }
  return best;
}

}  // namespace greta
