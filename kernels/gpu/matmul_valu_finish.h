#pragma once

#include <cstdint>

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/matmul_valu_task.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/wave.h"

// What a block of kernels/gpu/matmul_valu.hip does with the sums of its lanes: adds them up, and
// stores what becomes of them. Device code.

namespace greta::matmul_valu_detail {

/// Each of kN sums over 32 lanes, as wave_reduce<32> would, in 32 / kN of them: sum i from lane
/// i · (32 / kN) on. A lane hands over the half of its sums that are others' to finish.
template <int kN>
__device__ float reduce_32(float (&sums)[kN]) {
  int mask = 16;
  GRETA_UNROLL
  for (int n = kN / 2; n > 0; n /= 2) {
    const bool upper = (threadIdx.x & static_cast<unsigned>(mask)) != 0;
    GRETA_UNROLL
    for (int i = 0; i < n; ++i) {
      const float mine = upper ? sums[n + i] : sums[i], theirs = upper ? sums[i] : sums[n + i];
      sums[i] = mine + wave_shuffle_xor(theirs, mask);
    }
    mask /= 2;
  }
  GRETA_UNROLL
  for (int m = 16 / kN; m > 0; m /= 2) sums[0] += wave_shuffle_xor(sums[0], m);
  return sums[0];
}

/// Sums of [half of the team][row][token] of all teams.
template <class B>
using Totals = float[B::kTeams][2][B::kRows][B::kTokens];

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
  if (part.cache != nullptr) {
    part.cache[(*task.rope.pos + task.rope.row_shift) * part.rows + row] = value;
  }
}

/// Stores what the teams have computed in `n` groups, of which `first` is the first.
template <class B>
__device__ void finish_groups(const Task& task, uint32_t first, uint32_t n, int64_t first_token,
                              const Totals<B> (&all)[kUnfinished]) {
  static_assert(kUnfinished * B::kGroupRows * B::kTokens <= B::kThreads);
  constexpr uint32_t kRows = B::kRows;
  const auto n_rows = static_cast<uint32_t>(group_rows(task.finish, B::kGroupRows));
  const uint32_t token = threadIdx.x / n_rows % B::kTokens;
  const uint32_t index = threadIdx.x / (n_rows * B::kTokens);
  if (index >= n) return;
  const uint32_t team = threadIdx.x % n_rows / kRows, r = threadIdx.x % kRows;
  const Totals<B>& totals = all[index];
  const Job job = job_of<B>(task, first + index * gridDim.y, team);
  const Part& part = task.parts[job.part];
  const uint32_t row = job.first_row + r;
  if (first_token + token >= task.n_tokens || row >= part.rows) return;
  const auto total_of = [&](uint32_t of_team, uint32_t of_row) {
    return totals[of_team][0][of_row][token] + totals[of_team][1][of_row][token];
  };
  const float total = total_of(team, r);
  const int64_t at = (first_token + token) * part.rows + row;
  switch (task.finish) {
    case Finish::kStore:
      part.out[at] = total;
      if constexpr (B::kTokens == 1) {
        if (task.rope.table != nullptr) store_turned(task, part, row, total, total_of(team, r ^ 1));
      }
      break;
    case Finish::kAdd:
      part.out[at] = total;
      task.sum[at] = task.residual[at] + total;
      break;
    case Finish::kGated:
      part.out[at] = silu(total) * total_of(team + B::kTeams / 2, r);
      break;
    case Finish::kGateOut:
      part.out[at] = silu(total) * part.out[at];
      break;
  }
}

}  // namespace greta::matmul_valu_detail
