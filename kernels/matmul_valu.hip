#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels/dequant.h"
#include "kernels/gpu_math.h"
#include "kernels/gpu_runtime.h"
#include "kernels/lane_dot.h"
#include "kernels/lane_dot_k.h"
#include "kernels/matmul_valu.h"
#include "kernels/row_norm.h"
#include "kernels/wave.h"
#include "kernels/weight_planes.h"
#include "kernels/weight_type_switch.h"

// out[t][r] = Σ_k x[t][k]·w[r][k].
//
// A team of 64 lanes computes kRows rows for kTokens tokens; the teams of a block share the x of
// those tokens, which lies in shared memory, a segment of columns at a time. Blocks go on to
// further rows until there are none left. What a lane adds up, in which order, and how the lanes'
// sums are put together depends on cols and the type alone: halves of a team are reduced by 32
// lanes, then added, whatever the wavefront is, so even the device does not matter.
//
// A lane requests the weights of its next step as soon as it has used up those of the last one:
// before the block waits for earlier kernels, for x, or for each other.

// Arguments that are indexed where they lie, instead of in a copy.
#if defined(GRETA_NVIDIA)
#define GRETA_GRID_CONSTANT __grid_constant__
#else
#define GRETA_GRID_CONSTANT
#endif

namespace greta {
namespace {

constexpr int kThreads = 512;
constexpr int kTeams = kThreads / kTeam;
constexpr int kRows = 2;          // of a team at a time: an activation is read once for all of them
constexpr int kBlocksAtOnce = 2;  // per processor, of one token: registers are allotted for them

/// The second number of launch bounds: to NVIDIA's compiler the blocks per processor, to AMD's the
/// wavefronts per unit, where two are what the largest kernels have registers for.
constexpr int resident(int blocks) { return kWave == 32 ? blocks : 2; }

/// Tokens that share a pass over the weights, when there are several, by what the shared memory of
/// a block holds.
template <WeightType kType>
constexpr int kTile = std::min(4, 8192 / (kTeam * LaneDot<kType>::kColumns));

/// Columns of x that are kept at a time.
constexpr int segment_columns(int n_tokens) { return n_tokens == 1 ? 4096 : 8192 / n_tokens; }

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
  uint32_t n_groups;
  Finish finish;
  bool aligned;  ///< tokens of x, and what the norm reads and writes, to 16 bytes
  Part parts[kMaxProducts];
  const float* residual;
  float* sum;
};

/// Rows of a group: when gated, half of the teams work on the other product.
__host__ __device__ constexpr int group_rows(Finish finish) {
  return finish == Finish::kGated ? kTeams / 2 * kRows : kTeams * kRows;
}

/// What a team computes: kRows rows of a part from first_row on. Some may not exist.
struct Job {
  uint32_t part;
  uint32_t first_row;
};

__device__ Job job_of(const Task& task, uint32_t group, int team) {
  if (task.finish == Finish::kGated) {
    constexpr int kPairs = kTeams / 2;
    return {static_cast<uint32_t>(team / kPairs),
            (group * kPairs + static_cast<uint32_t>(team % kPairs)) * kRows};
  }
  const uint32_t part = (group >= task.parts[1].first_group ? 1u : 0u) +
                        (group >= task.parts[2].first_group ? 1u : 0u);
  const uint32_t in_part = group - task.parts[part].first_group;
  return {part, (in_part * kTeams + static_cast<uint32_t>(team)) * kRows};
}

template <WeightType kType, int kTokens>
struct Shape {
  using Dot = LaneDot<kType>;
  static constexpr int kStepColumns = kTeam * Dot::kColumns;
  static constexpr int kSteps = segment_columns(kTokens) / kStepColumns;  // of a segment
  static constexpr int kStepGroups = Dot::kColumns / 4 * kGroupStride;
  static constexpr int kTokenGroups = kSteps * kStepGroups;
  static constexpr int kTokenSums = Dot::kHasMins ? kSteps * kTeam : 0;
  static_assert(kSteps > 0);
};

/// The x of a segment, in the order of lanes.
template <WeightType kType, int kTokens>
struct SharedX {
  using S = Shape<kType, kTokens>;
  Floats4 groups[kTokens * S::kTokenGroups];
  float2 sums[std::max(1, kTokens* S::kTokenSums)];  // over sub-blocks
};

/// Columns column .. column + 3 of a row of activations or of the norm's weights, zeros beyond the
/// end.
__device__ Floats4 load_columns(const Task& task, const float* row, uint32_t column) {
  Floats4 v{};
  if (column >= task.cols) return v;
  if (task.aligned) return load_as<Floats4>(row + column);
  GRETA_UNROLL
  for (int i = 0; i < 4; ++i) {
    if (column + static_cast<uint32_t>(i) < task.cols) v.value[i] = row[column + i];
  }
  return v;
}

__device__ Floats4 load_x(const Task& task, int64_t token, uint32_t column) {
  return token < task.n_tokens ? load_columns(task, task.x + token * task.cols, column) : Floats4{};
}

/// What x is multiplied with, as rms_norm() does.
__device__ float factor_of(const Task& task) {
  static_assert(kThreads == kNormThreads);
  double sum = 0;
  for (uint32_t k = threadIdx.x * kNormGroup; k < task.cols; k += kNormStride) {
    add_squares(load_columns(task, task.x, k), sum);
  }
  return norm_factor(sum, task.cols, task.norm.eps);
}

/// x, normed; stored as well, by the block that has the first rows.
__device__ Floats4 norm_x(const Task& task, Floats4 x, uint32_t column, float factor) {
  const Floats4 weight = load_columns(task, task.norm.weight, column);
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

/// Fills shared memory with the segment that begins with `first_step`. Steps beyond the row's end
/// get zeros.
template <WeightType kType, int kTokens>
__device__ void stage_x(const Task& task, int64_t first_token, int first_step, float factor,
                        SharedX<kType, kTokens>& shared) {
  using S = Shape<kType, kTokens>;
  constexpr int kGroups = S::kStepColumns / 4;  // of a step
  constexpr int kAll = kTokens * S::kSteps * kGroups;
  static_assert(kAll % kThreads == 0);
  GRETA_UNROLL
  for (int begin = 0; begin < kAll; begin += kThreads) {
    const int i = begin + static_cast<int>(threadIdx.x);
    const int token = i / (S::kSteps * kGroups), step = i / kGroups % S::kSteps;
    const int group = i % kGroups;
    const auto column = static_cast<uint32_t>((first_step + step) * kGroups + group) * 4;
    Floats4 x = load_x(task, first_token + token, column);
    if (kTokens == 1 && task.norm.weight != nullptr) x = norm_x(task, x, column, factor);
    const GroupPlace place = S::Dot::group_place(group);
    shared.groups[token * S::kTokenGroups + step * S::kStepGroups + place.group * kGroupStride +
                  place.lane] = x;
    if constexpr (S::Dot::kHasMins) {
      const float own = (x.value[0] + x.value[1]) + (x.value[2] + x.value[3]);
      const float sum = wave_reduce<8>(own, Plus{});
      float2& sums = shared.sums[token * S::kTokenSums + step * kTeam + place.lane];
      if (group % 16 == 0) sums.x = sum;
      if (group % 16 == 8) sums.y = sum;
    }
  }
}

template <WeightType kType>
using RawRows = typename LaneDot<kType>::Raw[kRows];

/// The weights of a step of a team's rows. A row that does not exist is read as the last one.
template <WeightType kType, bool kAligned>
__device__ void load_rows(const Task& task, uint32_t group, int step, RawRows<kType>& raw) {
  const int team = static_cast<int>(threadIdx.x) / kTeam;
  const int lane = static_cast<int>(threadIdx.x) % kTeam;
  const Job job = job_of(task, group, team);
  const Part& part = task.parts[job.part];
  GRETA_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const uint32_t row = std::min(job.first_row + static_cast<uint32_t>(r), part.rows - 1);
    LaneDot<kType>::template load<kAligned>(part.w, row, task.cols, step, lane, raw[r]);
  }
}

/// As elementwise.h's swiglu().
__device__ float gated(float gate, float up) { return gate / (1.0f + exp_f32(-gate)) * up; }

/// Stores what the teams have computed: totals of [team][half of the team][row][token].
template <int kTokens>
__device__ void finish_group(const Task& task, uint32_t group, int64_t first_token,
                             const float (&totals)[kTeams][2][kRows][kTokens]) {
  const int n_rows = group_rows(task.finish);
  const int i = static_cast<int>(threadIdx.x);
  if (i >= n_rows * kTokens) return;
  const int token = i / n_rows, team = i % n_rows / kRows, r = i % kRows;
  const Job job = job_of(task, group, team);
  const Part& part = task.parts[job.part];
  const uint32_t row = job.first_row + static_cast<uint32_t>(r);
  if (first_token + token >= task.n_tokens || row >= part.rows) return;
  const float total = totals[team][0][r][token] + totals[team][1][r][token];
  const int64_t at = (first_token + token) * part.rows + row;
  switch (task.finish) {
    case Finish::kStore:
      part.out[at] = total;
      break;
    case Finish::kAdd:
      part.out[at] = total;
      task.sum[at] = task.residual[at] + total;
      break;
    case Finish::kGated: {
      const auto& up = totals[team + kTeams / 2];
      part.out[at] = gated(total, up[0][r][token] + up[1][r][token]);
      break;
    }
    case Finish::kGateOut:
      part.out[at] = gated(total, part.out[at]);
      break;
  }
}

template <WeightType kType, int kTokens, bool kAligned>
__global__ __launch_bounds__(
    kThreads, resident(kTokens == 1 && kAligned
                           ? kBlocksAtOnce
                           : 1)) void products_kernel(const GRETA_GRID_CONSTANT Task task) {
  using S = Shape<kType, kTokens>;
  using Dot = LaneDot<kType>;
  using X = SharedX<kType, kTokens>;
  GRETA_SHARED(X, shared);
  // Two of them: the next group's are written while this one's are read.
  GRETA_SHARED(float, totals, [2][kTeams][2][kRows][kTokens]);

  allow_next();
  const int team = static_cast<int>(threadIdx.x) / kTeam;
  const int lane = static_cast<int>(threadIdx.x) % kTeam;
  // With aligned rows tiles of one token are for one token in all.
  const int64_t first_token =
      kTokens == 1 && kAligned ? 0 : static_cast<int64_t>(blockIdx.x) * kTokens;
  const auto n_steps = static_cast<int>((task.cols + S::kStepColumns - 1) / S::kStepColumns);
  const bool one_segment = n_steps <= S::kSteps;

  RawRows<kType> raw{};
  load_rows<kType, kAligned>(task, blockIdx.y, 0, raw);
  wait_for_previous();
  const float factor = kTokens == 1 && task.norm.weight != nullptr ? factor_of(task) : 1.0f;

  int parity = 0;
  for (uint32_t group = blockIdx.y; group < task.n_groups; group += gridDim.y) {
    LaneSums<kRows, kTokens> sums{};
    for (int step = 0; step < n_steps; ++step) {
      const int in_segment = step % S::kSteps;
      if (in_segment == 0 && (group == blockIdx.y || !one_segment)) {
        __syncthreads();  // before what others may still read is overwritten
        stage_x(task, first_token, step, factor, shared);
        __syncthreads();
      }
      if (Dot::present(task.cols, step, lane)) {
        const LaneX<kTokens> x{shared.groups + in_segment * S::kStepGroups + lane,
                               shared.sums + (Dot::kHasMins ? in_segment * kTeam + lane : 0),
                               S::kTokenGroups, S::kTokenSums};
        Dot::add(raw, lane, x, sums);
      }
      const bool last = step + 1 == n_steps;
      const uint32_t next = last ? group + gridDim.y : group;
      if (next < task.n_groups) load_rows<kType, kAligned>(task, next, last ? 0 : step + 1, raw);
    }
    GRETA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      GRETA_UNROLL
      for (int t = 0; t < kTokens; ++t) {
        const float sum = wave_reduce<32>(sums[r][t], Plus{});
        if (lane % 32 == 0) totals[parity][team][lane / 32][r][t] = sum;
      }
    }
    __syncthreads();
    finish_group(task, group, first_token, totals[parity]);
    parity ^= 1;
  }
}

int n_processors() {
  static const int n = device_info().n_processors;  // asking takes long
  return n;
}

template <WeightType kType>
void launch_products(const Task& task, Stream& stream) {
  int tile = task.n_tokens == 1 ? 1 : kTile<kType>;
  auto kernel =
      tile == 1 ? products_kernel<kType, 1, true> : products_kernel<kType, kTile<kType>, true>;
  if constexpr (is_float_type(kType)) {
    if (task.cols % LaneDot<kType>::kRowMultiple != 0) {
      tile = 1;
      kernel = products_kernel<kType, 1, false>;
    }
  }
  // Neighbouring blocks take the same weights for other tokens, so that one finds in the cache what
  // the other has fetched. Each has about as many groups of rows as any other. With many tiles
  // there are more blocks than fit at once: then they need not end together.
  const int64_t n_tiles = blocks_for(task.n_tokens, tile);
  const int64_t at_once = int64_t{kBlocksAtOnce} * n_processors();
  const int64_t wanted =
      n_tiles == 1 ? at_once : std::max<int64_t>(1, 4 * at_once / std::max<int64_t>(1, n_tiles));
  const int64_t rounds = blocks_for(task.n_groups, std::min<int64_t>(wanted, 65535));
  const unsigned height = rounds == 0 ? 0 : blocks_for(task.n_groups, rounds);
  launch({.name = "matmul_valu",
          .grid = {static_cast<unsigned>(n_tiles), height},
          .block = kThreads,
          .early = true},
         stream, kernel, task);
}

// ---- Tasks.

[[noreturn]] void fail(const std::string& what) {
  throw std::invalid_argument("matmul_valu: " + what);
}

void check(const Matrix& w, int64_t cols) {
  const WeightTypeInfo& info = weight_type_info(w.type);
  const auto block = static_cast<int64_t>(info.block_values);
  // Rows, columns and eighths of blocks are counted in 32 bits, with room to round up.
  constexpr int64_t kMost = int64_t{1} << 31, kMostBlocks = int64_t{1} << 29;
  if (w.rows < 0 || w.cols != cols || cols < 0 || cols % block != 0 || w.rows >= kMost ||
      cols >= kMost || (!is_float_type(w.type) && w.rows * (cols / block) >= kMostBlocks)) {
    fail(std::to_string(w.rows) + " × " + std::to_string(w.cols) + " weights of type " +
         std::string(info.name) + " for activations of " + std::to_string(cols));
  }
}

Task make_task(const float* x, int64_t n_tokens, int64_t cols, Finish finish) {
  Task task{};
  task.x = x;
  task.n_tokens = n_tokens;
  task.cols = static_cast<uint32_t>(cols);
  task.finish = finish;
  task.aligned = cols % 4 == 0 && aligned16(x);
  for (Part& part : task.parts) part.first_group = std::numeric_limits<uint32_t>::max();
  return task;
}

Task make_task(const NormedRow& in, int64_t cols, Finish finish) {
  Task task = make_task(in.x, 1, cols, finish);
  task.norm = {in.weight, in.eps, in.out};
  task.aligned = task.aligned && aligned16(in.weight, in.out);
  return task;
}

void set_part(Task& task, size_t i, const Matrix& w, float* out) {
  task.parts[i] = {device_weights(w), static_cast<uint32_t>(w.rows), task.n_groups, out};
}

/// Appends a part whose rows follow those of the others.
void add_part(Task& task, size_t i, const Matrix& w, float* out) {
  set_part(task, i, w, out);
  task.n_groups += blocks_for(w.rows, group_rows(task.finish));
}

void run(WeightType type, const Task& task, Stream& stream) {
  with_weight_type(
      type, [&](auto constant) { launch_products<decltype(constant)::value>(task, stream); });
}

/// Those that all products have.
int64_t cols_of(std::span<const DeviceProduct> products) {
  if (products.size() > kMaxProducts) fail(std::to_string(products.size()) + " products at once");
  for (const DeviceProduct& product : products) check(product.w, products[0].w.cols);
  return products.empty() ? 0 : products[0].w.cols;
}

/// The products of a task, a launch for each type: `first`, then `others`.
void run_all(std::span<const DeviceProduct> products, Task first, Task others, Stream& stream) {
  for (size_t i = 0; i < products.size(); ++i) {
    const WeightType type = products[i].w.type;
    const auto same_type = [&](const DeviceProduct& other) { return other.w.type == type; };
    if (std::any_of(products.begin(), products.begin() + static_cast<std::ptrdiff_t>(i),
                    same_type)) {
      continue;  // done with an earlier one
    }
    Task task = i == 0 ? first : others;
    size_t n_parts = 0;
    for (const DeviceProduct& product : products.subspan(i)) {
      if (same_type(product)) add_part(task, n_parts++, product.w, product.out);
    }
    run(type, task, stream);
  }
}

void run_gated(const Matrix& gate, const Matrix& up, float* out, Task first, Task second,
               Stream& stream) {
  check(gate, gate.cols);
  check(up, gate.cols);
  if (gate.rows != up.rows) fail("gate and up differ in their number of rows");
  if (gate.type == up.type) {
    first.finish = Finish::kGated;
    set_part(first, 1, up, out);
    add_part(first, 0, gate, out);
    return run(gate.type, first, stream);
  }
  // Kernels are for one type: up, which out holds meanwhile, and then the rest.
  add_part(first, 0, up, out);
  run(up.type, first, stream);
  second.finish = Finish::kGateOut;
  add_part(second, 0, gate, out);
  run(gate.type, second, stream);
}

// ---- matmul_fp16_accumulate: a thread per row. Weights are expanded a few columns at a time, by
// ---- all threads together, so that they read next to each other.

constexpr int kChainThreads = 64;
constexpr int kChainColumns = 32;

template <WeightType kType>
__global__ __launch_bounds__(kChainThreads) void fp16_accumulate_kernel(const float* x,
                                                                        DeviceWeights w,
                                                                        int64_t rows, int64_t cols,
                                                                        int64_t step, float* out) {
  GRETA_SHARED(float, weights, [kChainThreads][kChainColumns + 1]);
  constexpr int kEach = kWeightsPerLoad<kType>;
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) * kChainThreads;
  const int thread = static_cast<int>(threadIdx.x);
  const float* const token = x + blockIdx.y * cols;
  float sum = 0;
  for (int64_t begin = 0; begin < cols; begin += kChainColumns) {
    __syncthreads();
    for (int i = thread * kEach; i < kChainThreads * kChainColumns; i += kChainThreads * kEach) {
      const int64_t row = first_row + i / kChainColumns, column = begin + i % kChainColumns;
      if (row >= rows || column >= cols) continue;
      float values[kEach];
      load_weights<kType>(w, row * cols + column, values);
      for (int j = 0; j < kEach; ++j) weights[i / kChainColumns][i % kChainColumns + j] = values[j];
    }
    __syncthreads();
    if (first_row + thread >= rows) continue;
    for (int i = 0; i < kChainColumns && begin + i < cols; ++i) {
      const int64_t n_added = begin + i + 1;
      sum += weights[thread][i] * token[begin + i];
      if (n_added % step == 0 || n_added == cols) sum = f16_value(f16_bits(sum));
    }
  }
  if (first_row + thread < rows) out[blockIdx.y * rows + first_row + thread] = sum;
}

}  // namespace

void matmul_valu(const float* x, int64_t n_tokens, std::span<const DeviceProduct> products,
                 Stream& stream) {
  const Task task = make_task(x, n_tokens, cols_of(products), Finish::kStore);
  run_all(products, task, task, stream);
}

void matmul_valu(const NormedRow& in, std::span<const DeviceProduct> products, Stream& stream) {
  const int64_t cols = cols_of(products);
  run_all(products, make_task(in, cols, Finish::kStore), make_task(in.out, 1, cols, Finish::kStore),
          stream);
}

void matmul_add_valu(const float* x, int64_t n_tokens, const DeviceProduct& product,
                     const float* residual, float* sum, Stream& stream) {
  check(product.w, product.w.cols);
  Task task = make_task(x, n_tokens, product.w.cols, Finish::kAdd);
  task.residual = residual;
  task.sum = sum;
  add_part(task, 0, product.w, product.out);
  run(product.w.type, task, stream);
}

void gated_matmul_valu(const float* x, int64_t n_tokens, const Matrix& gate, const Matrix& up,
                       float* out, Stream& stream) {
  run_gated(gate, up, out, make_task(x, n_tokens, gate.cols, Finish::kStore),
            make_task(x, n_tokens, gate.cols, Finish::kStore), stream);
}

void gated_matmul_valu(const NormedRow& in, const Matrix& gate, const Matrix& up, float* out,
                       Stream& stream) {
  run_gated(gate, up, out, make_task(in, gate.cols, Finish::kStore),
            make_task(in.out, 1, gate.cols, Finish::kStore), stream);
}

void matmul_fp16_accumulate(const float* x, int64_t n_tokens, int64_t step,
                            const DeviceProduct& product, Stream& stream) {
  const Matrix& w = product.w;
  check(w, w.cols);
  if (step < 1) throw std::invalid_argument("matmul_fp16_accumulate: step must be at least 1");
  with_weight_type(w.type, [&](auto constant) {
    // A grid is at most 65535 high.
    constexpr int64_t kMaxTokens = 65535;
    for (int64_t first = 0; first < n_tokens; first += kMaxTokens) {
      const auto tokens = static_cast<unsigned>(std::min(kMaxTokens, n_tokens - first));
      launch({"matmul_fp16_accumulate", {blocks_for(w.rows, kChainThreads), tokens}, kChainThreads},
             stream, fp16_accumulate_kernel<decltype(constant)::value>, x + first * w.cols,
             device_weights(w), w.rows, w.cols, step, product.out + first * w.rows);
    }
  });
}

}  // namespace greta
