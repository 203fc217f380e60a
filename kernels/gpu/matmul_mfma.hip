#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/matmul_mfma.h"
#include "kernels/gpu/matmul_mfma_place.h"
#include "kernels/gpu/matrix_core.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/wave.h"

// out[t][r] = Σ_k x[t][k]·w[r][k]. A block computes kTokens x kRows results, each wavefront a part
// of them. The lines of x and w that they need pass through shared memory, kDepth columns at a
// time, in a ring of kStages; what lies ahead is on its way while wavefronts multiply. Operands are
// in registers one slice of kSliceDepth columns before they are multiplied.
//
// Every tile adds slices in the same order with the same instruction, so a result has the same bits
// in each. At the end of a chunk of columns its sums are added to the results: registers are for
// the next one. Beyond cols both operands are 0, which changes no sum: sums begin at +0 and never
// become −0. Lines beyond the end repeat the last one, and their results are not stored.

namespace greta {
namespace {

using namespace matmul_mfma_detail;

constexpr int kPart = 32;                       // of a WaveTile
constexpr int kChunk = 8;                       // values of a 16-byte copy
constexpr int64_t kMaxCols = int64_t{1} << 22;  // offsets within a tile have 32 bits

template <int kTokens_, int kRows_, int kDepth_, int kStages_, int kWaveTokens_, int kWaveRows_>
struct TileShape {
  static constexpr int kTokens = kTokens_, kRows = kRows_, kDepth = kDepth_, kStages = kStages_;
  static constexpr int kWaveTokens = kWaveTokens_, kWaveRows = kWaveRows_;  // of one wavefront
  static constexpr int kWavesAlongTokens = kTokens / kWaveTokens;
  static constexpr int kWaves = kWavesAlongTokens * (kRows / kWaveRows);
  static constexpr int kThreads = kWaves * kMatrixLanes;

  static constexpr int kLines = kTokens + kRows;
  static constexpr int kStride = kDepth + kSharedRowPad;
  static constexpr int kStageValues = kLines * kStride;
  static constexpr size_t kSharedBytes = sizeof(uint16_t) * kStages * kStageValues;

  static constexpr int kSliceDepth = 16;
  static constexpr int kSlices = kDepth / kSliceDepth;

  // Copies: neighbouring threads take the chunks of a line, a pass covers kPassLines lines. They
  // are begun between the slices, but for the last, where the next stage must be complete.
  static constexpr int kLineChunks = kDepth / kChunk;
  static constexpr int kPassLines = kThreads / kLineChunks;
  static constexpr int kPasses = kLines / kPassLines;
  static constexpr int kSlicePasses = (kPasses + kSlices - 2) / (kSlices - 1);

  static_assert(kTokens % kPassLines == 0 && kRows % kPassLines == 0);  // a pass has one operand
  static_assert(kSlices % 2 == 0);  // fragments alternate between two sets
};

// NVIDIA: up to 227 KiB of shared memory for a block. AMD: 64 KiB.
#if GRETA_MATRIX_LANES == 32
using Wide = TileShape<128, 256, 64, 4, 64, 64>;
using Square = TileShape<128, 128, 64, 3, 64, 64>;
using Small = TileShape<64, 64, 64, 4, 32, 32>;
using Thin = TileShape<32, 64, 128, 4, 32, 32>;
#else
using Wide = TileShape<128, 128, 32, 2, 64, 64>;
using Square = TileShape<128, 64, 32, 2, 64, 32>;
using Small = TileShape<64, 64, 32, 2, 32, 32>;
using Thin = TileShape<32, 64, 32, 2, 32, 32>;
#endif

// ---- From global to shared memory.

// What cols is a multiple of, so how lines are copied: the depth, and no question is asked; a
// chunk; or nothing, and they are read value by value.
enum class Columns { kWholeSteps, kWholeChunks, kAny };

// A block's view of its operands.
template <class Shape, Columns kColumns>
struct TileSource {
  Lines tokens, rows;
  uint32_t cols;

  // This thread's copies of passes [first, end) of the columns from k on.
  __device__ void copy(uint32_t k, int first, int end, uint16_t* stage) const {
    const int line = static_cast<int>(threadIdx.x) / Shape::kLineChunks;
    const int column = static_cast<int>(threadIdx.x) % Shape::kLineChunks * kChunk;
    GRETA_UNROLL
    for (int pass = first; pass < end; ++pass) {
      const int skipped = pass * Shape::kPassLines;
      const bool is_row = skipped >= Shape::kTokens;
      const uint16_t* const from = is_row ? rows.first : tokens.first;
      const uint32_t last = is_row ? rows.last : tokens.last;
      const auto wanted = static_cast<uint32_t>(line + skipped - (is_row ? Shape::kTokens : 0));
      const uint32_t offset = (wanted < last ? wanted : last) * cols;
      copy_chunk(from, offset, k + static_cast<uint32_t>(column),
                 stage + (line + skipped) * Shape::kStride + column);
    }
  }

 private:
  // Values k .. k + 7 of the line that begins at `offset`; zeros beyond its end.
  __device__ void copy_chunk(const uint16_t* from, uint32_t offset, uint32_t k,
                             uint16_t* shared) const {
    if constexpr (kColumns == Columns::kWholeSteps) {
      copy_async16(shared, from + (offset + k));
    } else if constexpr (kColumns == Columns::kWholeChunks) {
      if (k < cols) {
        copy_async16(shared, from + (offset + k));
      } else {
        store_as(shared, Words4{});
      }
    } else {
      Words4 words{};
      GRETA_UNROLL
      for (uint32_t i = 0; i < kChunk; ++i) {
        const uint32_t value = k + i < cols ? from[offset + k + i] : 0;
        words.word[i / 2] |= value << 16 * (i % 2);
      }
      store_as(shared, words);
    }
  }
};

// ---- A wavefront's part.

template <class Tile, class Shape>
struct Fragments {
  static constexpr int kTokenParts = Shape::kWaveTokens / kPart;
  static constexpr int kRowParts = Shape::kWaveRows / kPart;
  typename Tile::Operand tokens[kTokenParts], rows[kRowParts];

  // x and w: where the wavefront's lines begin in a stage.
  __device__ void load(const uint16_t* x, const uint16_t* w, int slice) {
    GRETA_UNROLL
    for (int i = 0; i < kTokenParts; ++i) {
      tokens[i] = Tile::load_left(x + i * kPart * Shape::kStride + slice * Shape::kSliceDepth,
                                  Shape::kStride);
    }
    GRETA_UNROLL
    for (int i = 0; i < kRowParts; ++i) {
      rows[i] = Tile::load_right(w + i * kPart * Shape::kStride + slice * Shape::kSliceDepth,
                                 Shape::kStride);
    }
  }
};

template <class Tile, class Shape>
struct Sums {
  using Operands = Fragments<Tile, Shape>;
  typename Tile::Sum part[Operands::kTokenParts][Operands::kRowParts];

  __device__ void add(const Operands& operands) {
    GRETA_UNROLL
    for (int t = 0; t < Operands::kTokenParts; ++t) {
      GRETA_UNROLL
      for (int r = 0; r < Operands::kRowParts; ++r) {
        Tile::multiply_add(operands.tokens[t], operands.rows[r], part[t][r]);
      }
    }
  }

  // The part begins at token, row of the product. add: to what is there.
  __device__ void store(const HalfProduct& product, int64_t token, int64_t row, bool add) const {
    const int64_t n_tokens = product.n_tokens - token, n_rows = product.rows - row;
    float* const to = product.out + token * product.out_stride + row;
    if (n_tokens >= Shape::kWaveTokens && n_rows >= Shape::kWaveRows &&
        product.out_stride % Tile::kRun == 0 &&
        reinterpret_cast<uintptr_t>(to) % alignof(Run) == 0) {
      each_run([&](int t, int r, Run run) {
        float* const own = to + t * product.out_stride + r;
        if (add) run.add(load_as<Run>(own));
        store_as(own, run);
      });
    } else {
      each_run([&](int t, int r, const Run& run) {
        GRETA_UNROLL
        for (int i = 0; i < Tile::kRun; ++i) {
          if (t >= n_tokens || r + i >= n_rows) continue;
          float* const own = to + t * product.out_stride + r + i;
          *own = add ? *own + run.value[i] : run.value[i];
        }
      });
    }
  }

 private:
  struct alignas(sizeof(float) * Tile::kRun) Run {
    float value[Tile::kRun];

    __device__ void add(const Run& earlier) {
      GRETA_UNROLL
      for (int i = 0; i < Tile::kRun; ++i) value[i] = earlier.value[i] + value[i];
    }
  };

  // use(token, row, values): what this lane has, places within the part.
  template <class Use>
  __device__ void each_run(Use use) const {
    GRETA_UNROLL
    for (int t = 0; t < Operands::kTokenParts; ++t) {
      GRETA_UNROLL
      for (int r = 0; r < Operands::kRowParts; ++r) {
        const int first_token = opaque(t * kPart), first_row = opaque(r * kPart);
        GRETA_UNROLL
        for (int i = 0; i < Tile::kValues; i += Tile::kRun) {
          Run run;
          GRETA_UNROLL
          for (int j = 0; j < Tile::kRun; ++j) run.value[j] = part[t][r].value[i + j];
          use(first_token + Tile::row(i), first_row + Tile::column(i), run);
        }
      }
    }
  }
};

// ---- The block.

template <HalfType kType, class Shape, Columns kColumns>
__global__ __launch_bounds__(Shape::kThreads) void matmul_kernel(HalfProduct product) {
  using Tile = WaveTile<kType, kPart>;
  static_assert(Tile::kDepth == Shape::kSliceDepth);
  GRETA_DYNAMIC_SHARED(uint16_t, stages);

  const TilePlace place = place_of<Shape>(blockIdx.x, product);
  const TileSource<Shape, kColumns> source{
      lines_from(product.x, product.cols, place.token, product.n_tokens, Shape::kTokens),
      lines_from(product.w, product.cols, place.row, product.rows, Shape::kRows),
      static_cast<uint32_t>(product.cols)};
  const int wave_token = wave_id() % Shape::kWavesAlongTokens * Shape::kWaveTokens;
  const int wave_row = wave_id() / Shape::kWavesAlongTokens * Shape::kWaveRows;
  const int x_offset = wave_token * Shape::kStride;
  const int w_offset = (Shape::kTokens + wave_row) * Shape::kStride;

  const uint32_t n_steps = (source.cols + Shape::kDepth - 1) / Shape::kDepth;
  const auto chunk_cols = static_cast<uint32_t>(mfma_chunk_columns(product.cols));
  const uint32_t chunk_steps = (chunk_cols + Shape::kDepth - 1) / Shape::kDepth;
  GRETA_UNROLL
  for (uint32_t step = 0; step + 1 < Shape::kStages; ++step) {
    if (step < n_steps) {
      source.copy(step * Shape::kDepth, 0, Shape::kPasses, stages + step * Shape::kStageValues);
    }
    commit_copies();
  }
  wait_for_copies<Shape::kStages - 2>();
  __syncthreads();

  Fragments<Tile, Shape> fragments[2];
  uint16_t* current = stages;
  const uint16_t* const end = stages + Shape::kStages * Shape::kStageValues;
  uint16_t* free_stage = stages + (Shape::kStages - 1) * Shape::kStageValues;
  fragments[0].load(current + x_offset, current + w_offset, 0);
  uint32_t step = 0;
  GRETA_NO_UNROLL
  do {
    const bool later_chunk = step > 0;
    const uint32_t chunk_end = step + chunk_steps < n_steps ? step + chunk_steps : n_steps;
    Sums<Tile, Shape> sums;
    GRETA_NO_UNROLL
    for (; step < chunk_end; ++step) {
      const uint32_t ahead = step + Shape::kStages - 1;
      GRETA_UNROLL
      for (int slice = 0; slice < Shape::kSlices; ++slice) {
        if (slice == Shape::kSlices - 1) {
          // The next stage is there, and nobody reads this one any more.
          commit_copies();
          wait_for_copies<Shape::kStages - 2>();
          __syncthreads();
          free_stage = current;
          current += Shape::kStageValues;
          if (current == end) current = stages;
        }
        fragments[(slice + 1) % 2].load(current + x_offset, current + w_offset,
                                        (slice + 1) % Shape::kSlices);
        if (slice < Shape::kSlices - 1 && ahead < n_steps) {
          const int first = slice * Shape::kSlicePasses;
          source.copy(ahead * Shape::kDepth, first,
                      first + Shape::kSlicePasses < Shape::kPasses ? first + Shape::kSlicePasses
                                                                   : Shape::kPasses,
                      free_stage);
        }
        sums.add(fragments[slice % 2]);
      }
    }
    sums.store(product, place.token + wave_token, place.row + wave_row, later_chunk);
  } while (step < n_steps);
}

// ---- Launch.

template <class Shape>
int64_t n_blocks(const HalfProduct& product) {
  return int64_t{blocks_for(product.n_tokens, Shape::kTokens)} *
         blocks_for(product.rows, Shape::kRows);
}

template <HalfType kType, class Shape, Columns kColumns>
void launch_matmul(const HalfProduct& product, Stream& stream) {
  launch({"matmul_mfma", blocks_for(n_blocks<Shape>(product), 1), Shape::kThreads,
          Shape::kSharedBytes},
         stream, matmul_kernel<kType, Shape, kColumns>, product);
}

// Products that are no whole steps of a tile take the small one, whose steps are the shortest.
template <HalfType kType, class Shape>
void launch_chunks(const HalfProduct& product, Stream& stream) {
  if (product.cols % Shape::kDepth == 0) {
    launch_matmul<kType, Shape, Columns::kWholeSteps>(product, stream);
  } else if constexpr (std::is_same_v<Shape, Small>) {
    launch_matmul<kType, Small, Columns::kWholeChunks>(product, stream);
  } else {
    launch_chunks<kType, Small>(product, stream);
  }
}

template <HalfType kType>
void launch_tile(const HalfProduct& product, MfmaTile tile, Stream& stream) {
  if (product.cols % kChunk != 0 || !aligned16(product.x, product.w)) {
    return launch_matmul<kType, Small, Columns::kAny>(product, stream);
  }
  switch (tile) {
    case MfmaTile::kWide:
      if (fits_wide_matmul(product)) return wide_matmul({&product, 1}, stream);
      return launch_chunks<kType, Wide>(product, stream);
    case MfmaTile::kSquare:
      return launch_chunks<kType, Square>(product, stream);
    case MfmaTile::kSmall:
      return launch_chunks<kType, Small>(product, stream);
    case MfmaTile::kThin:
      return launch_chunks<kType, Thin>(product, stream);
  }
  throw std::invalid_argument("matmul_mfma: unknown tile");
}

/// Blocks: nearly one for every processor of an H100 (132), two for five of an MI300X (304).
constexpr int64_t kEnough = 128;

void check_columns(const HalfProduct& product) {
  if (product.cols > kMaxCols) {
    throw std::length_error("matmul_mfma: " + std::to_string(product.cols) + " columns, at most " +
                            std::to_string(kMaxCols) + " are supported");
  }
}

}  // namespace

MfmaTile mfma_tile(const HalfProduct& product) {
  if (product.n_tokens <= Thin::kTokens) return MfmaTile::kThin;
  if (n_blocks<Wide>(product) >= kEnough) return MfmaTile::kWide;
  if (n_blocks<Square>(product) >= kEnough) return MfmaTile::kSquare;
  return MfmaTile::kSmall;
}

void matmul_mfma(const HalfProduct& product, Stream& stream) {
  matmul_mfma(product, mfma_tile(product), stream);
}

void matmul_mfma(const HalfProduct& product, MfmaTile tile, Stream& stream) {
  check_columns(product);
  if (product.type == HalfType::kF16) {
    launch_tile<HalfType::kF16>(product, tile, stream);
  } else {
    launch_tile<HalfType::kBF16>(product, tile, stream);
  }
}

void matmul_mfma(std::span<const HalfProduct> products, Stream& stream) {
  if (products.size() > kMaxProducts) throw std::invalid_argument("matmul_mfma: too many products");
  int64_t n_wide = 0;
  bool all_fit = products.size() > 1;
  for (const HalfProduct& product : products) {
    const HalfProduct& first = products[0];
    if (product.x != first.x || product.type != first.type || product.cols != first.cols ||
        product.n_tokens != first.n_tokens) {
      throw std::invalid_argument("matmul_mfma: products of different x");
    }
    check_columns(product);
    all_fit = all_fit && fits_wide_matmul(product) && aligned16(product.x, product.w);
    n_wide += n_blocks<Wide>(product);
  }
  if (all_fit && products[0].n_tokens > Thin::kTokens && n_wide >= kEnough) {
    return wide_matmul(products, stream);
  }
  for (const HalfProduct& product : products) matmul_mfma(product, stream);
}

}  // namespace greta
