#include <algorithm>
#include <cstdint>

#include "kernels/gpu/matmul_mfma.h"
#include "kernels/gpu/matmul_mfma_rows.h"
#include "kernels/gpu/matmul_stage.h"
#include "kernels/gpu/matmul_task.h"
#include "kernels/gpu/matrix_core.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/weight_planes.h"

// out[r] = Σ_k x[k]·w[r][k] of one token, with the sums of kernels/gpu/matmul_mfma.hip: in its
// chunks of columns, by its instruction, one slice after the other, then chunk by chunk. What
// bounds this is how fast weights arrive, or, of quantised ones, how fast they become 16-bit
// floats. A chain of slices takes longer, so there are many of them: a job is a tile of sixteen
// rows and a chunk of its columns, and a wavefront's. A block has kJobs of them at a time, and all
// of its threads bring the weights of these to shared memory, in a ring of stages that goes on from
// job to job: before the block waits for earlier kernels, and for x, the first are requested. x
// lies in shared memory as a whole.

namespace greta {
namespace {

using namespace matmul_mfma_token_detail;

constexpr int kTileRows = 16;
constexpr int kJobs = kBlockRows / kTileRows;  // that a block has at a time
constexpr int kMostJobs = 8;                   // of a group of rows

struct Block {
  static constexpr int kThreads = kBlockThreads, kTokens = 1;
  static constexpr bool kRoomy = true;
};

/// Stages of which a block has weights, or has them on their way.
template <class Rows>
constexpr int kStages = Rows::kStageBytes == 0 || kMatrixLanes == 64 ? 2
                        : Rows::kPartColumns == 0                    ? 4
                                                                     : 3;
/// Converted tiles: one is multiplied while the next is made.
template <class Rows>
constexpr int kTilesBytes = Rows::kPartColumns == 0 ? 0 : 2 * tile_bytes(Rows::kPartColumns);

/// x in shared memory: halves, those of a slice as ColumnTile wants them.
template <HalfType kType>
struct HalfUnits {
  static constexpr int kColumns = 64;
  static constexpr uint32_t kStepGroups = kColumns / 4;
  static constexpr int kStepBytes = kColumns * 2;

  __device__ static void put(std::byte* step, uint32_t group, const Floats4& x) {
    using Tile = ColumnTile<kType>;
    auto* const slice = reinterpret_cast<uint16_t*>(step) + group / 4 * Tile::kDepth;
    const auto k = static_cast<int>(group % 4) * 4;
    store_as(slice + Tile::place(k), half_pair<kType>(x.value[0], x.value[1]));
    store_as(slice + Tile::place(k + 2), half_pair<kType>(x.value[2], x.value[3]));
  }
};

/// How a task is cut.
struct Split {
  uint32_t n_chunks, chunk_columns;
  uint32_t n_tiles;  ///< of a group: of every product when gated, half for each

  __host__ __device__ uint32_t n_jobs() const { return n_tiles * n_chunks; }
};

struct Job {
  uint32_t part, first_row, column;
};

__device__ Job job_of(const Task& task, const Split& split, uint32_t group, uint32_t job) {
  const uint32_t tile = job / split.n_chunks;
  const uint32_t column = job % split.n_chunks * split.chunk_columns;
  if (task.finish == Finish::kGated) {
    const uint32_t of_each = split.n_tiles / 2;
    return {tile / of_each, (group * of_each + tile % of_each) * kTileRows, column};
  }
  const uint32_t part = part_of(task, group);
  return {part, ((group - task.parts[part].first_group) * split.n_tiles + tile) * kTileRows,
          column};
}

/// The block's way through its jobs, stage by stage, with the rows that a thread has of each.
template <class Rows, int kOwnRows>
class Walk {
 public:
  /// row(i): which of the block's rows.
  template <class Row>
  __device__ Walk(const Task& task, const Split& split, Row row)
      : task_(task), split_(split), group_(blockIdx.y) {
    begin(row);
  }
  __device__ bool done() const { return group_ >= task_.n_groups; }
  __device__ const RowPlace& place(int i) const { return places_[i]; }
  template <class Row>
  __device__ void advance(Row row) {
    GRETA_UNROLL
    for (RowPlace& place : places_) place.column += Rows::kColumns;
    step_ += Rows::kColumns;
    if (step_ < split_.chunk_columns) return;
    step_ = 0;
    if (++round_ == split_.n_jobs() / kJobs) {
      round_ = 0;
      group_ += gridDim.y;
    }
    begin(row);
  }

 private:
  template <class Row>
  __device__ void begin(Row row) {
    if (done()) return;
    GRETA_UNROLL
    for (int i = 0; i < kOwnRows; ++i) {
      const auto own = static_cast<uint32_t>(row(i));
      const Job job = job_of(task_, split_, group_, round_ * kJobs + own / kTileRows);
      const Part& part = task_.parts[job.part];
      // A row that does not exist is read as the last one.
      places_[i] = {part.w, std::min(job.first_row + own % kTileRows, part.rows - 1), job.column,
                    task_.cols};
    }
  }

  const Task& task_;
  const Split& split_;
  uint32_t group_, round_ = 0, step_ = 0;
  RowPlace places_[kOwnRows]{};
};

template <WeightType kWeight, class Rows>
__global__ __launch_bounds__(Block::kThreads, 512 / Block::kThreads) void token_kernel(
    const GRETA_GRID_CONSTANT Task argument, const GRETA_GRID_CONSTANT Split split) {
  const Task& task = first_argument(argument);
  constexpr HalfType kType = kHalfOf<kWeight>;
  constexpr int kStaged = kStages<Rows>;
  constexpr bool kConverts = Rows::kPartColumns > 0;
  constexpr int kPartColumns = kConverts ? Rows::kPartColumns : Rows::kColumns;
  constexpr int kParts = Rows::kColumns / kPartColumns;
  using Tile = ColumnTile<kType>;
  using Units = HalfUnits<kType>;
  GRETA_DYNAMIC_SHARED(std::byte, shared);
  GRETA_SHARED(float, totals, [2][kMostJobs][kTileRows]);

  allow_next();
  const bool multiplies = wave_id() < kJobs;
  const uint32_t n_steps = task.segment_steps;
  const auto* const x = reinterpret_cast<const uint16_t*>(shared);
  std::byte* const stages = shared + n_steps * Units::kStepBytes;
  auto* const tiles = reinterpret_cast<uint16_t*>(stages + kStaged * Rows::kStageBytes);

  Walk<Rows, kCopiedRows> ahead(task, split, copied_row);
  int free_stage = 0;
  const auto request = [&] {
    if (!ahead.done()) {
      GRETA_UNROLL
      for (int i = 0; i < kCopiedRows; ++i) {
        Rows::request(ahead.place(i), i, stages + free_stage * Rows::kStageBytes);
      }
      ahead.advance(copied_row);
    }
    commit_copies();
    free_stage = free_stage + 1 < kStaged ? free_stage + 1 : 0;
  };
  for (int i = 0; i < kStaged; ++i) request();
  stage_first<Units, Block>(task, 0, n_steps, shared);
  wait_for_copies<kStaged - 1>();
  __syncthreads();  // x is there, and the first stage

  const auto row_to_convert = [](int) { return converted_row(); };
  Walk<Rows, 1> walk(task, split, row_to_convert);
  int stage = 0, tile = 0, buffer = 0;
  for (uint32_t group = blockIdx.y; group < task.n_groups; group += gridDim.y) {
    for (uint32_t first_job = 0; first_job < split.n_jobs(); first_job += kJobs) {
      const uint32_t job = first_job + static_cast<uint32_t>(wave_id());
      typename Tile::Sum sum;
      const uint16_t* column = x + job % split.n_chunks * split.chunk_columns;
      for (uint32_t step = 0; step < split.chunk_columns; step += Rows::kColumns) {
        const std::byte* const here = stages + stage * Rows::kStageBytes;
        GRETA_UNROLL
        for (int part = 0; part < kParts; ++part) {
          const uint16_t* operand = reinterpret_cast<const uint16_t*>(here);
          if constexpr (kConverts) {
            uint16_t* const made = tiles + tile * (tile_bytes(kPartColumns) / 2);
            Rows::convert(walk.place(0), part, here, made);
            operand = made;
            tile ^= 1;
            if (part == kParts - 1) wait_for_copies<kStaged - 2>();
            __syncthreads();  // the tile is there; of the stage the last, or the next stage
            if (part == kParts - 1) request();
          }
          operand += wave_id() * kTileRows * tile_stride(kPartColumns);
          if (multiplies && step + static_cast<uint32_t>(column - x) < task.cols) {
            GRETA_UNROLL
            for (int k = 0; k < kPartColumns; k += Tile::kDepth) {
              Tile::multiply_add(
                  WaveTile<kType, kTileRows>::load_left(operand + k, tile_stride(kPartColumns)),
                  Tile::load(column + step + part * kPartColumns + k), sum);
            }
          }
        }
        if constexpr (!kConverts) {
          wait_for_copies<kStaged - 2>();
          __syncthreads();  // the next stage is there, and this one has been read
          request();
        }
        if constexpr (kConverts) walk.advance(row_to_convert);
        stage = stage + 1 < kStaged ? stage + 1 : 0;
      }
      if (multiplies) {
        Tile::each(sum, [&](int row, float value) { totals[buffer][job][row] = value; });
      }
    }
    __syncthreads();

    const uint32_t n_tiles = task.finish == Finish::kGated ? split.n_tiles / 2 : split.n_tiles;
    const uint32_t of_tile = threadIdx.x / kTileRows, r = threadIdx.x % kTileRows;
    if (of_tile < n_tiles) {
      const Job job = job_of(task, split, group, of_tile * split.n_chunks);
      const Part& part = task.parts[job.part];
      const auto total_of = [&](uint32_t a_tile, uint32_t row) {
        const uint32_t first = a_tile * split.n_chunks;
        float total = totals[buffer][first][row];
        for (uint32_t chunk = 1; chunk < split.n_chunks; ++chunk) {
          total += totals[buffer][first + chunk][row];
        }
        return total;
      };
      if (job.first_row + r < part.rows) {
        finish_row(
            task, part, 0, job.first_row + r, total_of(of_tile, r), true,
            [&] { return total_of(of_tile, r ^ 1); },
            [&] { return total_of(of_tile + n_tiles, r); });
      }
    }
    buffer ^= 1;  // what has just been read is written again after the next barrier
  }
}

// ---- Launch.

/// Steps of x in shared memory: zeros follow it as far as rows are read, which have zeros there
/// too.
template <class Rows>
uint32_t steps_of_x(int64_t cols) {
  constexpr int kColumns = HalfUnits<HalfType::kF16>::kColumns;
  static_assert(Rows::kColumns % kColumns == 0);
  return blocks_for(cols, Rows::kColumns) * (Rows::kColumns / kColumns);
}

template <class Rows>
size_t shared_bytes(int64_t cols) {
  return static_cast<size_t>(steps_of_x<Rows>(cols)) * HalfUnits<HalfType::kF16>::kStepBytes +
         kStages<Rows> * Rows::kStageBytes + kTilesBytes<Rows>;
}

template <WeightType kWeight, class Rows>
void launch_rows(Task task, Stream& stream) {
  static const int n_processors = device_info().n_processors;  // asking takes long
  const int64_t chunk = mfma_chunk_columns(task.cols);
  Split split{std::max(1u, blocks_for(task.cols, std::max<int64_t>(1, chunk))),
              static_cast<uint32_t>(chunk), 0};
  const bool gated = task.finish == Finish::kGated;
  split.n_tiles = std::max(gated ? 2u : 1u, kJobs / split.n_chunks);
  number_groups(task, int64_t{kTileRows} * (gated ? split.n_tiles / 2 : split.n_tiles));
  task.segment_steps = steps_of_x<Rows>(task.cols);
  launch({.name = "matmul_mfma_token",
          .grid = {1, std::min<unsigned>(task.n_groups, 512u / Block::kThreads *
                                                            static_cast<unsigned>(n_processors))},
          .block = Block::kThreads,
          .shared_bytes = shared_bytes<Rows>(task.cols),
          .early = true},
         stream, token_kernel<kWeight, Rows>, task, split);
}

template <WeightType kWeight>
void launch_token(const Task& task, Stream& stream) {
  const auto aligned = [&](const Part& part) { return aligned16(part.w.plane[0]); };
  const bool all_aligned = std::all_of(task.parts, task.parts + task.n_parts, aligned);
  if constexpr (kWeight == WeightType::kF16 || kWeight == WeightType::kBF16) {
    if (task.cols % 8 == 0 && all_aligned) return launch_rows<kWeight, HalfRows>(task, stream);
  } else if constexpr (kCanUnpack<kWeight>) {
    if (task.cols % PlaneRows<kWeight>::kColumns == 0 && all_aligned) {
      return launch_rows<kWeight, PlaneRows<kWeight>>(task, stream);
    }
  }
  launch_rows<kWeight, AnyRows<kWeight>>(task, stream);
}

void run(WeightType type, const Task& task, Stream& stream) {
  with_weight_type(type,
                   [&](auto constant) { launch_token<decltype(constant)::value>(task, stream); });
}

}  // namespace

bool fits_token_matmul_mfma(int64_t cols) {
  static const size_t most = device_info().shared_bytes;
  // Of all forms of weights the one that takes most; the totals, and a longer step of x.
  constexpr size_t kBeside = 2048;
  return shared_bytes<PlaneRows<WeightType::kQ8_0>>(cols) + kBeside <= most;
}

void token_matmul_mfma(const NormedRow& in, std::span<const Product> products, Stream& stream) {
  run_products(run, in, products, stream);
}

void token_qkv_matmul_mfma(const NormedRow& in, const std::array<Product, 3>& qkv,
                           const RopeRow& rope, Stream& stream) {
  run_qkv(run, in, qkv, rope, stream);
}

void token_matmul_add_mfma(const float* x, const Product& product, const float* residual,
                           float* sum, Stream& stream) {
  run_add(run, x, 1, product, residual, sum, stream);
}

void token_gated_matmul_mfma(const NormedRow& in, const Matrix& gate, const Matrix& up, float* out,
                             Stream& stream) {
  run_gated(run, in, gate, up, out, stream);
}

}  // namespace greta
