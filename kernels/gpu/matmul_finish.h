#pragma once

#include <cstdint>

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/matmul_task.h"
#include "kernels/gpu/runtime.h"

// What becomes of a product's results. Device code.

namespace greta::matmul_detail {

/// Turns a value of a part by RoPE, with its neighbour of the pair that rows 2i and 2i + 1 are, and
/// stores it where it belongs.
__device__ inline void store_turned(const Task& task, const Part& part, uint32_t row, float value,
                                    float neighbour) {
  const uint32_t d = part.turned != nullptr ? row % task.rope.head_dim : task.rope.turned_dim;
  if (d < task.rope.turned_dim) {
    const float2 turn = load_as<float2>(task.rope.table + d / 2 * 2);
    value =
        d % 2 == 0 ? turned_first(value, neighbour, turn) : turned_second(neighbour, value, turn);
  }
  if (part.turned != nullptr) part.turned[row] = value;
  if (part.cache.data != nullptr) {
    store_kv(part.cache, (*task.rope.pos + task.rope.row_shift) * part.rows + row, value);
  }
}

/// Stores result `row` of a part for a token, and what comes of it. one_token: there are no others.
/// neighbour(): result row ^ 1. second(): the same result of the product that a gate is for.
template <class Neighbour, class Second>
__device__ inline void finish_row(const Task& task, const Part& part, int64_t token, uint32_t row,
                                  float total, bool one_token, Neighbour neighbour, Second second) {
  const int64_t at = token * part.rows + row;
  switch (task.finish) {
    case Finish::kStore:
      part.out[at] = total;
      if (one_token && task.rope.table != nullptr) {
        store_turned(task, part, row, total, neighbour());
      }
      break;
    case Finish::kAdd:
      part.out[at] = total;
      task.sum[at] = task.residual[at] + total;
      break;
    case Finish::kGated:
      part.out[at] = silu(total) * second();
      break;
    case Finish::kGateOut:
      part.out[at] = silu(total) * part.out[at];
      break;
  }
}

}  // namespace greta::matmul_detail
