#include <algorithm>

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/lane_dot.h"
#include "kernels/gpu/lane_dot_k.h"
#include "kernels/gpu/matmul_stage.h"
#include "kernels/gpu/matmul_task.h"
#include "kernels/gpu/matmul_valu.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/wave.h"
#include "kernels/gpu/weight_planes.h"

// How blocks share the work of a Task. Device code.

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
  /// True if weights leave registers for bringing more of x at a time.
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

/// Work of a team: rows of a part from first_row on. Some may not exist.
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
  const uint32_t part = part_of(task, group);
  return {part, ((group - task.parts[part].first_group) * B::kTeams + team) * B::kRows};
}

}  // namespace greta::matmul_valu_detail

// out[t][r] = Σ_k x[t][k]·w[r][k].
//
// A team of 64 lanes computes a few rows for one or a few tokens; the teams of a block share the x
// of those tokens, which lies in shared memory as kernels/gpu/lane_x.h arranges it, all of it or a
// segment of columns at a time. Blocks go on to further rows until there are none left. What a lane
// adds up, in which order, and how the lanes' sums are put together depends on cols and the type
// alone: halves of a team are reduced by 32 lanes, then added, whatever the wavefront is, so even
// the device does not matter.
//
// A lane requests the weights of a later step as soon as it has used up those of one: before the
// block waits for earlier kernels, for x, or for each other. Where x lacks its norm every block
// norms it on the way to shared memory: that costs less than a kernel of its own. So does turning
// q and k, and storing rows in the cache, on the way out.

namespace greta {
namespace {

using namespace matmul_valu_detail;

/// x as a LaneDot wants it.
template <WeightType kType>
struct Units : LaneDot<kType>::Units {
  static constexpr uint32_t kStepGroups = kStepColumns<kType> / 4;
};

/// A place in the sequence of a block's steps.
struct Place {
  uint32_t group, step;
};

__device__ Place place_after(Place place, uint32_t n_steps) {
  const bool last = place.step + 1 == n_steps;
  return {last ? place.group + gridDim.y : place.group, last ? 0 : place.step + 1};
}

template <WeightType kType, class B>
using RawRows = typename LaneDot<kType>::Raw[B::kRows];

/// The weights of a step of a team's rows. A row that does not exist is read as the last one.
template <WeightType kType, class B, bool kAligned>
__device__ void load_rows(const Task& task, Place place, RawRows<kType, B>& raw) {
  const Job job = job_of<B>(task, place.group, threadIdx.x / kTeam);
  const Part& part = task.parts[job.part];
  GRETA_UNROLL
  for (uint32_t r = 0; r < B::kRows; ++r) {
    const uint32_t row = std::min(job.first_row + r, part.rows - 1);
    LaneDot<kType>::template load<kAligned>(part.w, row, task.cols, place.step, threadIdx.x % kTeam,
                                            raw[r]);
  }
}

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
using TeamTotals = float[B::kTeams][2][B::kRows][B::kTokens];

/// Stores what the teams have computed in `n` groups, of which `first` is the first.
template <class B>
__device__ void finish_groups(const Task& task, uint32_t first, uint32_t n, int64_t first_token,
                              const TeamTotals<B> (&all)[kUnfinished]) {
  static_assert(kUnfinished * B::kGroupRows * B::kTokens <= B::kThreads);
  constexpr uint32_t kRows = B::kRows;
  const auto n_rows = static_cast<uint32_t>(group_rows(task.finish, B::kGroupRows));
  const uint32_t token = threadIdx.x / n_rows % B::kTokens;
  const uint32_t index = threadIdx.x / (n_rows * B::kTokens);
  if (index >= n) return;
  const uint32_t team = threadIdx.x % n_rows / kRows, r = threadIdx.x % kRows;
  const TeamTotals<B>& totals = all[index];
  const Job job = job_of<B>(task, first + index * gridDim.y, team);
  const Part& part = task.parts[job.part];
  const uint32_t row = job.first_row + r;
  if (first_token + token >= task.n_tokens || row >= part.rows) return;
  const auto total_of = [&](uint32_t of_team, uint32_t of_row) {
    return totals[of_team][0][of_row][token] + totals[of_team][1][of_row][token];
  };
  finish_row(
      task, part, first_token + token, row, total_of(team, r), B::kTokens == 1,
      [&] { return total_of(team, r ^ 1); }, [&] { return total_of(team + B::kTeams / 2, r); });
}

template <WeightType kType, class B, bool kAligned>
__global__ __launch_bounds__(B::kThreads, B::kResident) void products_kernel(
    const GRETA_GRID_CONSTANT Task argument) {
  const Task& task = first_argument(argument);
  using Dot = LaneDot<kType>;
  constexpr int kRows = B::kRows, kTokens = B::kTokens;
  constexpr uint32_t kStepBytes = Dot::Units::kStepBytes;
  GRETA_DYNAMIC_SHARED(std::byte, shared);
  GRETA_SHARED(TeamTotals<B>, totals, [kUnfinished]);

  allow_next();
  const uint32_t team = threadIdx.x / kTeam, lane = threadIdx.x % kTeam;
  // With aligned rows tiles of one token are for one token in all.
  const int64_t first_token =
      kTokens == 1 && kAligned ? 0 : static_cast<int64_t>(blockIdx.x) * kTokens;
  const uint32_t n_steps =
      task.cols == 0 ? 1 : (task.cols + kStepColumns<kType> - 1) / kStepColumns<kType>;
  const bool one_segment = n_steps <= task.segment_steps;

  // The block's steps follow each other, whatever group they belong to.
  RawRows<kType, B> raws[B::kAhead]{};
  Place requested{blockIdx.y, 0};
  const auto request = [&](RawRows<kType, B>& raw) {
    if (requested.group < task.n_groups) load_rows<kType, B, kAligned>(task, requested, raw);
    requested = place_after(requested, n_steps);
  };
  GRETA_UNROLL
  for (int i = 0; i < B::kAhead; ++i) request(raws[i]);
  const float factor = stage_first<Units<kType>, B>(task, first_token, n_steps, shared);
  __syncthreads();

  LaneSums<kRows, kTokens> sums{};
  Place place{blockIdx.y, 0};
  uint32_t in_segment = 0, n_unfinished = 0;
  const auto take_step = [&](RawRows<kType, B>& raw) {
    if (place.step == 0 || in_segment == task.segment_steps) in_segment = 0;
    const bool staged = one_segment || (place.step == 0 && place.group == blockIdx.y);
    if (in_segment == 0 && !staged) {
      __syncthreads();  // before what others may still read is overwritten
      stage_x<Units<kType>, B>(task, first_token, place.step, n_steps, factor, shared);
      __syncthreads();
    }
    if (Dot::present(task.cols, place.step, lane)) {
      const std::byte* const own = shared + in_segment * kStepBytes + lane * 16;
      Dot::add(raw, lane, LaneX<kTokens>{own, task.segment_steps * kStepBytes}, sums);
    }
    request(raw);
    ++in_segment;
    const uint32_t group = place.group;
    place = place_after(place, n_steps);
    if (place.step != 0) return;

    constexpr int kSums = kRows * kTokens, kLanes = 32 / kSums;
    float flat[kSums];
    GRETA_UNROLL
    for (int i = 0; i < kSums; ++i) {
      flat[i] = sums[i / kTokens][i % kTokens];
      sums[i / kTokens][i % kTokens] = 0;
    }
    const float sum = reduce_32(flat);
    const uint32_t i = lane % 32 / kLanes;
    if (lane % kLanes == 0) totals[n_unfinished][team][lane / 32][i / kTokens][i % kTokens] = sum;
    ++n_unfinished;
    if (n_unfinished == kUnfinished || place.group >= task.n_groups) {
      __syncthreads();
      finish_groups<B>(task, group - (n_unfinished - 1) * gridDim.y, n_unfinished, first_token,
                       totals);
      __syncthreads();  // before totals are overwritten
      n_unfinished = 0;
    }
  };
  while (place.group < task.n_groups) {
    GRETA_UNROLL
    for (int i = 0; i < B::kAhead; ++i) {
      if (place.group < task.n_groups) take_step(raws[i]);
    }
  }
}

int n_processors() {
  static const int n = device_info().n_processors;  // asking takes long
  return n;
}

/// How many steps of x a block keeps at a time, so that several blocks fit beside each other.
template <WeightType kType>
uint32_t segment_steps(const Task& task, int n_tokens) {
  static const size_t most_bytes = std::min<size_t>(device_info().shared_bytes / 2, 100 << 10);
  const uint32_t n_steps = blocks_for(task.cols, kStepColumns<kType>);
  const size_t token_step = LaneDot<kType>::Units::kStepBytes * static_cast<size_t>(n_tokens);
  return static_cast<uint32_t>(
      std::clamp<size_t>(most_bytes / token_step, 1, std::max(1u, n_steps)));
}

template <WeightType kType, class B, bool kAligned = true>
void launch_blocks(Task task, Stream& stream) {
  number_groups(task, group_rows(task.finish, B::kGroupRows));
  task.segment_steps = segment_steps<kType>(task, B::kTokens);
  // Neighbouring blocks take the same weights for other tokens, so that one finds in the cache what
  // the other has fetched. With many tiles there are more blocks than fit at once: then they need
  // not end together.
  const int64_t n_tiles = blocks_for(task.n_tokens, B::kTokens);
  const int64_t at_once = int64_t{B::kAtOnce} * n_processors();
  const int64_t wanted =
      n_tiles == 1 ? at_once : std::max<int64_t>(1, 8 * at_once / std::max<int64_t>(1, n_tiles));
  const auto height =
      static_cast<unsigned>(std::min<int64_t>(task.n_groups, std::min<int64_t>(wanted, 65535)));
  launch({.name = "matmul_valu",
          .grid = {static_cast<unsigned>(n_tiles), height},
          .block = B::kThreads,
          .shared_bytes = static_cast<size_t>(B::kTokens) * task.segment_steps *
                          LaneDot<kType>::Units::kStepBytes,
          .early = true},
         stream, products_kernel<kType, B, kAligned>, task);
}

/// Rows of the processor that has most of them.
template <class B>
int64_t most_rows(Task task) {
  number_groups(task, group_rows(task.finish, B::kGroupRows));
  return int64_t{blocks_for(task.n_groups, n_processors())} * B::kGroupRows;
}

/// For the k-types, whose weights are few bytes, arranging x counts: one large block per processor
/// does it once, unless the smaller groups of two small ones are spread much more evenly. Floats
/// are many bytes: what counts is how many of them are on their way while a block waits.
template <WeightType kType>
void launch_one_token(const Task& task, Stream& stream) {
  if constexpr (weight_type_info(kType).block_values == 256) {
    using Large = Block<512, 4>;
    using Small = Block<256, 4>;
    if (20 * most_rows<Large>(task) <= 21 * most_rows<Small>(task)) {
      return launch_blocks<kType, Large>(task, stream);
    }
    launch_blocks<kType, Small>(task, stream);
  } else {
    launch_blocks<kType, Block<512, 2, 1, is_float_type(kType) ? 2 : 1>>(task, stream);
  }
}

template <WeightType kType>
void launch_products(const Task& task, Stream& stream) {
  if constexpr (is_float_type(kType)) {
    if (task.cols % LaneDot<kType>::kRowMultiple != 0) {
      return launch_blocks<kType, Block<512, 2, 1, 2>, false>(task, stream);
    }
  }
  if (task.n_tokens == 1) return launch_one_token<kType>(task, stream);
  launch_blocks<kType, Block<512, 2, kTile<kType>>>(task, stream);
}

void run(WeightType type, const Task& task, Stream& stream) {
  with_weight_type(
      type, [&](auto constant) { launch_products<decltype(constant)::value>(task, stream); });
}

}  // namespace

void matmul_valu(const float* x, int64_t n_tokens, std::span<const Product> products,
                 Stream& stream) {
  const Task task = make_task(x, n_tokens, cols_of(products), Finish::kStore);
  run_all(run, products, task, task, stream);
}

void matmul_valu(const NormedRow& in, std::span<const Product> products, Stream& stream) {
  run_products(run, in, products, stream);
}

void qkv_matmul_valu(const NormedRow& in, const std::array<Product, 3>& qkv, const RopeRow& rope,
                     Stream& stream) {
  run_qkv(run, in, qkv, rope, stream);
}

void matmul_add_valu(const float* x, int64_t n_tokens, const Product& product,
                     const float* residual, float* sum, Stream& stream) {
  run_add(run, x, n_tokens, product, residual, sum, stream);
}

void gated_matmul_valu(const float* x, int64_t n_tokens, const Matrix& gate, const Matrix& up,
                       float* out, Stream& stream) {
  const Task task = make_task(x, n_tokens, gate.cols, Finish::kStore);
  run_gated(run, gate, up, out, task, task, stream);
}

void gated_matmul_valu(const NormedRow& in, const Matrix& gate, const Matrix& up, float* out,
                       Stream& stream) {
  run_gated(run, in, gate, up, out, stream);
}

}  // namespace greta
