#include "kernels/cpu/scale_fit.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace greta {
namespace {

// Four lanes by GCC's and clang's vector extension: the order of sums is written down, not left to
// the optimiser, and every target has them.
constexpr size_t kLanes = 4;
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));

Lanes load(const float* x) {
  Lanes lanes;
  std::memcpy(&lanes, x, sizeof lanes);
  return lanes;
}

void store(Lanes lanes, float* x) { std::memcpy(x, &lanes, sizeof lanes); }

Lanes splat(float value) { return Lanes{value, value, value, value}; }

float sum(Lanes lanes) { return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]); }

Lanes clamp(Lanes x, Lanes lowest, Lanes highest) {
  x = x < lowest ? lowest : x;
  return x > highest ? highest : x;
}

// To nearest even, for |x| < 2^22: at 1.5·2^23 the unit of an f32 is 1.
Lanes round_to_integer(Lanes x) {
  const Lanes magic = splat(0x1.8p23f);
  return (x + magic) - magic;
}

// Sums over the integers that candidate scales assign.
struct Moments {
  double q = 0, q2 = 0, qx = 0;
};

// q = round(clamp((x − origin)·inverse, lowest, highest)).
Moments assign_moments(const float* x, size_t n, float origin, float inverse, float lowest,
                       float highest) {
  Lanes sum_q = {}, sum_q2 = {}, sum_qx = {};
  for (size_t i = 0; i < n; i += kLanes) {
    const Lanes value = load(x + i);
    const Lanes scaled = (value - splat(origin)) * splat(inverse);
    const Lanes q = round_to_integer(clamp(scaled, splat(lowest), splat(highest)));
    sum_q += q;
    sum_q2 += q * q;
    sum_qx += q * value;
  }
  return {sum(sum_q), sum(sum_q2), sum(sum_qx)};
}

// Candidates stretch the integers over the range by up to one more or one less than there are:
// clipping the ends a little often pays for everything between.
constexpr int kSteps = 5;  // to each side

double stretch(int step) { return static_cast<double>(step) / kSteps; }

// What the least-squares fits of a run need once.
struct Run {
  double n, x, x2;
};

struct Candidate {
  double scale = 0, min = 0, error = 0;
};

// Least squares for given integers.
Candidate solve(const Run& run, const Moments& at, Mins mins) {
  const double determinant = run.n * at.q2 - at.q * at.q;
  Candidate fit;
  if (determinant > 0) {
    fit.scale = (run.n * at.qx - at.q * run.x) / determinant;
    fit.min = (at.q * at.qx - at.q2 * run.x) / determinant;
  }
  if ((fit.min < 0 && mins == Mins::kNotNegative) || determinant <= 0) {
    fit.min = 0;
    fit.scale = at.q2 > 0 ? at.qx / at.q2 : 0;
  }
  fit.error = run.x2 + fit.scale * fit.scale * at.q2 + run.n * fit.min * fit.min -
              2 * (fit.scale * at.qx + fit.scale * fit.min * at.q - fit.min * run.x);
  return fit;
}

// The first value of the largest magnitude.
float extreme_of(const float* x, size_t n) {
  float extreme = 0;
  for (size_t i = 0; i < n; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  return extreme;
}

// The number of the level nearest to each lane: how many of the middles between two it is beyond.
Lanes nearest_level(Lanes x, std::span<const int8_t> levels) {
  Lanes number = {};
  for (size_t i = 1; i < levels.size(); ++i) {
    const float middle = static_cast<float>(levels[i - 1] + levels[i]) / 2;
    number += x > splat(middle) ? splat(1) : splat(0);
  }
  return number;
}

}  // namespace

float fit_scale(const float* x, size_t n, int limit) {
  const float extreme = extreme_of(x, n);
  if (std::fabs(extreme) < kMinFitRange) return 0;
  const auto lowest = static_cast<float>(-limit), highest = static_cast<float>(limit - 1);
  double best_scale = 0, best_gain = -1;
  for (int step = -kSteps; step <= kSteps; ++step) {
    const auto inverse = static_cast<float>((-limit + stretch(step)) / extreme);
    const Moments at = assign_moments(x, n, 0, inverse, lowest, highest);
    // The squared error is Σx² minus this.
    const double gain = at.q2 > 0 ? at.qx * at.qx / at.q2 : 0;
    if (gain <= best_gain) continue;
    best_gain = gain;
    best_scale = at.q2 > 0 ? at.qx / at.q2 : 0;
  }
  return static_cast<float>(best_scale);
}

AffineFit fit_affine(const float* x, size_t n, int max_q, Mins mins) {
  const auto [least, greatest] = std::minmax_element(x, x + n);
  const float origin = mins == Mins::kOfAnySign ? *least : std::min(*least, 0.0f);
  const float range = *greatest - origin;
  if (range < kMinFitRange) return {0, -origin};
  Lanes sum_x = {}, sum_x2 = {};
  for (size_t i = 0; i < n; i += kLanes) {
    const Lanes value = load(x + i);
    sum_x += value;
    sum_x2 += value * value;
  }
  const Run run{static_cast<double>(n), sum(sum_x), sum(sum_x2)};
  Candidate best;
  for (int step = -kSteps; step <= kSteps; ++step) {
    const auto inverse = static_cast<float>((max_q + stretch(step)) / range);
    const Moments at = assign_moments(x, n, origin, inverse, 0.0f, static_cast<float>(max_q));
    const Candidate fit = solve(run, at, mins);
    if (step == -kSteps || fit.error < best.error) best = fit;
  }
  return {static_cast<float>(best.scale), static_cast<float>(best.min)};
}

float assign_integers(const float* x, size_t n, AffineFit fit, int lowest, int highest, float* q) {
  const Lanes scale = splat(fit.scale), min = splat(fit.min);
  const Lanes inverse = splat(fit.scale == 0 ? 0 : 1 / fit.scale);
  const Lanes low = splat(static_cast<float>(lowest)), high = splat(static_cast<float>(highest));
  Lanes error = {};
  for (size_t i = 0; i < n; i += kLanes) {
    const Lanes value = load(x + i);
    const Lanes integer = round_to_integer(clamp((value + min) * inverse, low, high));
    const Lanes difference = value - (scale * integer - min);
    error += difference * difference;
    store(integer, q + i);
  }
  return sum(error);
}

float fit_levels(const float* x, size_t n, std::span<const int8_t> levels) {
  const float extreme = extreme_of(x, n);
  if (std::fabs(extreme) < kMinFitRange) return 0;
  double best_scale = 0, best_gain = -1;
  for (int step = -kSteps; step <= kSteps; ++step) {
    const double end = levels[0] + stretch(step) * (levels[1] - levels[0]);
    const auto inverse = static_cast<float>(end / extreme);
    double q2 = 0, qx = 0;
    for (size_t i = 0; i < n; i += kLanes) {
      const Lanes value = load(x + i);
      const Lanes number = nearest_level(value * splat(inverse), levels);
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const double q = levels[static_cast<size_t>(number[lane])];
        q2 += q * q;
        qx += q * value[lane];
      }
    }
    const double gain = qx * qx / q2;  // no level is 0
    if (gain <= best_gain) continue;
    best_gain = gain;
    best_scale = qx / q2;
  }
  return static_cast<float>(best_scale);
}

void assign_levels(const float* x, size_t n, float scale, std::span<const int8_t> levels,
                   uint8_t* q) {
  const float inverse = scale == 0 ? 0 : 1 / scale;
  for (size_t i = 0; i < n; i += kLanes) {
    const Lanes number = nearest_level(load(x + i) * splat(inverse), levels);
    for (size_t lane = 0; lane < kLanes; ++lane) q[i + lane] = static_cast<uint8_t>(number[lane]);
  }
}

}  // namespace greta
