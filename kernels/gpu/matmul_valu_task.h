#pragma once

#include <cstdint>

#include "kernels/gpu/lane_dot.h"
#include "kernels/gpu/lane_dot_k.h"
#include "kernels/gpu/matmul_valu.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/weight_planes.h"

// What a launch of kernels/gpu/matmul_valu.hip is told: the products, what becomes of them, and how
// blocks share the work.

namespace greta::matmul_valu_detail {

/// The shape of a block: its threads, the rows and tokens of a team at a time, and the steps of
/// which a lane has weights in hand. A row's weights are read once for all the tokens, an
/// activation once for all the rows.
template <int kThreads_, int kRows_, int kTokens_ = 1, int kAhead_ = 1>
struct Block {
  static constexpr int kThreads = kThreads_, kRows = kRows_, kTokens = kTokens_;
  static constexpr int kAhead = kAhead_;
  static constexpr int kTeams = kThreads / kTeam;
  static constexpr int kGroupRows = kTeams * kRows;  ///< of all its teams
  /// How many a processor holds, by what registers are allotted for.
  static constexpr int kAtOnce = kTokens > 1 ? 1 : 2048 / (kThreads * kRows * kAhead);
  /// The second number of launch bounds: to NVIDIA's compiler the blocks per processor, to AMD's
  /// the wavefronts per unit, where two are what the largest kernels have registers for.
  static constexpr int kResident = kWave == 32 ? kAtOnce : 2;
};

/// Tokens that share a pass over the weights, when there are several.
template <WeightType kType>
constexpr int kTile = LaneDot<kType>::kColumns > 32 ? 2 : 4;

/// Groups that are computed before their results are stored: in between teams do not wait for each
/// other, so that some load while others compute.
inline constexpr int kUnfinished = 8;

/// What happens to a product.
enum class Finish {
  kStore,
  kAdd,      ///< stored, and stored again with a residual added
  kGated,    ///< of two products, silu(first)·second
  kGateOut,  ///< silu(product)·out, which has the second already
};

struct Part {
  DeviceWeights w;
  uint32_t rows;
  uint32_t first_group;  ///< of rows; groups are numbered through all parts
  float* out;
  float* turned;  ///< out after RoPE; nullptr: it takes none
  float* cache;   ///< has a row for what comes of that; nullptr: none
};

/// RoPE and the place in the caches; of one token.
struct Rope {
  const float* table;  ///< nullptr: no part takes any
  uint32_t head_dim, turned_dim;
  const int32_t* pos;
  int64_t row_shift;
};

/// The norm that x still lacks; of one token.
struct Norm {
  const float* weight;  ///< nullptr: x lacks none
  float eps;
  float* out;
};

struct Task {
  const float* x;
  Norm norm;
  int64_t n_tokens;
  uint32_t cols;
  Finish finish;
  int n_parts;
  uint32_t n_groups;
  uint32_t segment_steps;  ///< of which x is kept at a time
  bool aligned;            ///< tokens of x, and what the norm reads and writes, to 16 bytes
  Part parts[kMaxProducts];
  Rope rope;
  const float* residual;
  float* sum;
};

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
