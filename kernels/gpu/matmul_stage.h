#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/matmul_task.h"
#include "kernels/gpu/row_norm.h"
#include "kernels/gpu/runtime.h"

// How a block that computes products brings activations to shared memory, and norms them on the way
// where they lack that. In what form they lie there is said by Units, step by step of columns:
//
//   kStepGroups, kStepBytes       groups of four columns in a step, and what they take
//   put(step, group, x)           stores a group
//
// B: the block's shape, kThreads, kTokens, and kRoomy. Device code.

namespace greta::matmul_detail {

/// Columns column .. column + 3 of a row of activations or of the norm's weights, zeros beyond the
/// end.
__device__ inline Floats4 load_columns(const Task& task, const float* row, uint32_t column) {
  Floats4 v{};
  if (column >= task.cols) return v;
  if (task.aligned) return load_as<Floats4>(row + column);
  GRETA_UNROLL
  for (int i = 0; i < 4; ++i) {
    if (column + static_cast<uint32_t>(i) < task.cols) v.value[i] = row[column + i];
  }
  return v;
}

/// x, normed; stored as well, by the block that has the first rows.
__device__ inline Floats4 norm_x(const Task& task, Floats4 x, const Floats4& weight,
                                 uint32_t column, float factor) {
  GRETA_UNROLL
  for (int i = 0; i < 4; ++i) x.value[i] = normed(x.value[i], factor, weight.value[i]);
  if (blockIdx.y != 0 || column >= task.cols) return x;
  if (task.aligned) {
    store_as(task.norm.out + column, x);
  } else {
    GRETA_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (column + static_cast<uint32_t>(i) < task.cols) task.norm.out[column + i] = x.value[i];
    }
  }
  return x;
}

/// Fills shared memory with the x of `n_steps` steps, from group `first_group` of them on. Beyond
/// the row's end are zeros.
template <class Units, class B, bool kNormed>
__device__ void stage_steps(const Task& task, int64_t first_token, uint32_t first_step,
                            uint32_t n_steps, uint32_t first_group, float factor,
                            std::byte* shared) {
  constexpr uint32_t kGroups = Units::kStepGroups;
  // Groups that a thread loads together, as there are registers.
  constexpr uint32_t kBatch = (kNormed ? 1 : 2) * (B::kRoomy ? 2 : 1);
  const uint32_t n_groups = n_steps * kGroups;
  GRETA_UNROLL
  for (int t = 0; t < B::kTokens; ++t) {
    const bool exists = B::kTokens == 1 || first_token + t < task.n_tokens;
    const float* const row = task.x + (exists ? first_token + t : 0) * task.cols;
    std::byte* const own = shared + t * task.segment_steps * Units::kStepBytes;
    for (uint32_t begin = first_group + threadIdx.x; begin < n_groups;
         begin += kBatch * B::kThreads) {
      Floats4 x[kBatch];
      GRETA_UNROLL
      for (uint32_t i = 0; i < kBatch; ++i) {
        const uint32_t column = (first_step * kGroups + begin + i * B::kThreads) * 4;
        x[i] = exists ? load_columns(task, row, column) : Floats4{};
        if constexpr (kNormed) {
          x[i] = norm_x(task, x[i], load_columns(task, task.norm.weight, column), column, factor);
        }
      }
      GRETA_UNROLL
      for (uint32_t i = 0; i < kBatch; ++i) {
        const uint32_t group = begin + i * B::kThreads;
        if (group >= n_groups) break;
        Units::put(own + group / kGroups * Units::kStepBytes, group % kGroups, x[i]);
      }
    }
  }
}

/// The same for the segment that begins with `first_step`.
template <class Units, class B>
__device__ void stage_x(const Task& task, int64_t first_token, uint32_t first_step,
                        uint32_t n_steps, float factor, std::byte* shared) {
  const uint32_t n = std::min(task.segment_steps, n_steps - first_step);
  if constexpr (B::kTokens == 1) {
    if (task.norm.weight != nullptr) {
      return stage_steps<Units, B, true>(task, 0, first_step, n, 0, factor, shared);
    }
  }
  stage_steps<Units, B, false>(task, first_token, first_step, n, 0, factor, shared);
}

/// The first segment of an x that lacks its norm: what a thread brings to shared memory it keeps
/// from finding the factor on, as far as there are registers, beside weights that it has requested
/// before x is there.
template <class B>
class NormedSegment {
 public:
  __device__ explicit NormedSegment(const Task& task) : task_(task) {
    GRETA_UNROLL
    for (uint32_t h = 0; h < kHeld; ++h) {
      weight_[h] = load_columns(task_, task_.norm.weight, column(h));
    }
  }
  /// Reads x, and finds what it is multiplied with, as rms_norm() does.
  __device__ float find_factor() {
    constexpr uint32_t kShare = kNormThreads / B::kThreads;
    double sums[kShare] = {};
    GRETA_UNROLL
    for (uint32_t h = 0; h < kHeld; ++h) {
      x_[h] = load_columns(task_, task_.x, column(h));
      if (column(h) < task_.cols) add_squares(x_[h], sums[h % kShare]);
    }
    for (uint32_t h = kHeld; column(h) < task_.cols; h += kShare) {
      GRETA_UNROLL
      for (uint32_t s = 0; s < kShare; ++s) {
        if (column(h + s) >= task_.cols) continue;
        add_squares(load_columns(task_, task_.x, column(h + s)), sums[s]);
      }
    }
    return norm_factor(sums, task_.cols, task_.norm.eps);
  }
  template <class Units>
  __device__ void stage(uint32_t n_steps, float factor, std::byte* shared) const {
    constexpr uint32_t kGroups = Units::kStepGroups;
    GRETA_UNROLL
    for (uint32_t h = 0; h < kHeld; ++h) {
      const uint32_t group = threadIdx.x + h * B::kThreads;
      if (group >= n_steps * kGroups) break;
      Units::put(shared + group / kGroups * Units::kStepBytes, group % kGroups,
                 norm_x(task_, x_[h], weight_[h], column(h), factor));
    }
    stage_steps<Units, B, true>(task_, 0, 0, n_steps, kHeld * B::kThreads, factor, shared);
  }

 private:
  static constexpr uint32_t kHeld = 1024 / B::kThreads;  // groups of four columns
  static_assert(kHeld * B::kThreads % kNormThreads == 0);
  __device__ static uint32_t column(uint32_t h) { return (threadIdx.x + h * B::kThreads) * 4; }

  const Task& task_;
  Floats4 x_[kHeld];
  Floats4 weight_[kHeld];
};

/// Waits for earlier kernels and brings the first segment of x to shared memory; the norm's factor.
template <class Units, class B>
__device__ float stage_first(const Task& task, int64_t first_token, uint32_t n_steps,
                             std::byte* shared) {
  if constexpr (B::kTokens == 1) {
    if (task.norm.weight != nullptr) {
      NormedSegment<B> segment(task);
      wait_for_previous();
      const float factor = segment.find_factor();
      segment.template stage<Units>(std::min(task.segment_steps, n_steps), factor, shared);
      return factor;
    }
  }
  wait_for_previous();
  stage_x<Units, B>(task, first_token, 0, n_steps, 1.0f, shared);
  return 1.0f;
}

}  // namespace greta::matmul_detail
