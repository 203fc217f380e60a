#pragma once

#include <cstdint>

#include "kernels/gpu/lane_dot.h"
#include "kernels/gpu/lane_dot_k.h"
#include "kernels/gpu/matmul_task.h"
#include "kernels/gpu/runtime.h"

// How the blocks of kernels/gpu/matmul_valu.hip share the work of a Task.

namespace greta::matmul_valu_detail {

using namespace matmul_detail;

/// The shape of a block: its threads, the rows and tokens of a team at a time, and the steps of
/// which a lane has weights in hand. A row's weights are read once for all the tokens, an
/// activation once for all the rows.
template <int kThreads_, int kRows_, int kTokens_ = 1, int kAhead_ = 1>
struct Block {
  static constexpr int kThreads = kThreads_, kRows = kRows_, kTokens = kTokens_;
  static constexpr int kAhead = kAhead_;
  static constexpr int kTeams = kThreads / kTeam;
  static constexpr int kGroupRows = kTeams * kRows;  ///< of all its teams
  /// Whether weights leave registers for bringing more of x at a time.
  static constexpr bool kRoomy = kRows * kTokens * kAhead == 4;
  /// How many a processor holds, by what registers are allotted for.
  static constexpr int kAtOnce = kTokens > 1 ? 1 : 2048 / (kThreads * kRows * kAhead);
  /// The second number of launch bounds: to NVIDIA's compiler the blocks per processor, to AMD's
  /// the wavefronts per unit, where two are what the largest kernels have registers for.
  static constexpr int kResident = kWave == 32 ? kAtOnce : 2;
};

/// Columns that a team takes at a time.
template <WeightType kType>
constexpr int kStepColumns = kTeam* LaneDot<kType>::kColumns;

/// Tokens that share a pass over the weights, when there are several.
template <WeightType kType>
constexpr int kTile = LaneDot<kType>::kColumns > 32 ? 2 : 4;

/// Groups that are computed before their results are stored: in between teams do not wait for each
/// other, so that some load while others compute.
inline constexpr int kUnfinished = 8;

/// Rows of a group, of those that the teams of a block have: when gated, half of the teams work on
/// the other product.
__host__ __device__ constexpr int group_rows(Finish finish, int of_teams) {
  return finish == Finish::kGated ? of_teams / 2 : of_teams;
}

/// What a team computes: rows of a part from first_row on. Some may not exist.
struct Job {
  uint32_t part;
  uint32_t first_row;
};

template <class B>
__device__ Job job_of(const Task& task, uint32_t group, uint32_t team) {
  if (task.finish == Finish::kGated) {
    constexpr uint32_t kPairs = B::kTeams / 2;
    return {team / kPairs, (group * kPairs + team % kPairs) * B::kRows};
  }
  const uint32_t part = (group >= task.parts[1].first_group ? 1u : 0u) +
                        (group >= task.parts[2].first_group ? 1u : 0u);
  return {part, ((group - task.parts[part].first_group) * B::kTeams + team) * B::kRows};
}

}  // namespace greta::matmul_valu_detail
