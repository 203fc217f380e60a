#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/matmul_mfma.h"
#include "kernels/gpu/matmul_mfma_place.h"
#include "kernels/gpu/matmul_valu.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/warpgroup.h"

// out[t][r] = Σ_k x[t][k]·w[r][k] as kernels/gpu/matmul_mfma.hip adds it up, slice by slice and
// chunk by chunk, but by warpgroups: each has 64 tokens and all the rows of the block's tile, and
// its operands never pass through registers. The lines of x and w come to shared memory in a ring
// of kStages. While the products of one stage are under way, those of the one before may not be
// done yet; the stage before that is free in every wavefront, and is filled anew.

namespace greta {

#if defined(GRETA_WARPGROUPS) && !defined(GRETA_AMD)

namespace {

using namespace matmul_mfma_detail;

struct Shape {
  static constexpr int kTokens = 128, kRows = 256, kDepth = 64, kStages = 4;
  static constexpr int kThreads = 256;
  static constexpr int kStageValues = (kTokens + kRows) * kDepth;
  static constexpr int kPassLines = kThreads / (kDepth / 8);
  static constexpr size_t kAlignment = 1024;
  static constexpr size_t kSharedBytes = sizeof(uint16_t) * kStages * kStageValues + kAlignment;
};

/// Stores a thread's sums, or adds them to what is there.
template <class Tile, class Part>
__device__ inline void store_sums(const HalfProduct& product, const TilePlace& place,
                                  const typename Tile::Sums& sums, bool add) {
  const bool pairs =
      product.out_stride % 2 == 0 && reinterpret_cast<uintptr_t>(product.out) % 8 == 0;
  const int64_t first = place.token + wave_id() / 4 * Tile::kLeft;
  GRETA_UNROLL
  for (int i = 0; i < 4; i += 2) {
    const int64_t token = first + wave_id() % 4 * 16 + Part::row(i);
    if (token >= product.n_tokens) continue;
    float* const line = product.out + token * product.out_stride;
    GRETA_UNROLL
    for (int j = 0; j < Shape::kRows / 8; ++j) {
      const int64_t row = place.row + 8 * j + Part::column(i);
      const float* const two = &sums[j / 2].value[j % 2 * 4 + i];
      float2 value{two[0], two[1]};
      if (pairs && row + 1 < product.rows) {
        if (add) {
          const auto before = load_as<float2>(line + row);
          value = {before.x + value.x, before.y + value.y};
        }
        store_as(line + row, value);
      } else {
        if (row < product.rows) line[row] = add ? line[row] + value.x : value.x;
        if (row + 1 < product.rows) line[row + 1] = add ? line[row + 1] + value.y : value.y;
      }
    }
  }
}

struct Products {
  HalfProduct product[kMaxProducts];
  uint32_t first_block[kMaxProducts];  ///< ascending; none has those of a product that is not there
};

template <HalfType kType>
__global__ __launch_bounds__(Shape::kThreads,
                             1) void wide_kernel(const GRETA_GRID_CONSTANT Products products) {
  using Tile = GroupTile<kType, Shape::kRows>;
  static_assert(Tile::kColumns == Shape::kDepth);
  GRETA_DYNAMIC_SHARED(unsigned char, dynamic);
  auto* const stages =
      reinterpret_cast<uint16_t*>((reinterpret_cast<uintptr_t>(dynamic) + Shape::kAlignment - 1) /
                                  Shape::kAlignment * Shape::kAlignment);

  int which = 0;
  GRETA_UNROLL
  for (int i = 1; i < static_cast<int>(kMaxProducts); ++i) {
    which += blockIdx.x >= products.first_block[i] ? 1 : 0;
  }
  const HalfProduct product = products.product[which];
  const TilePlace place = place_of<Shape>(blockIdx.x - products.first_block[which], product);
  const Lines tokens =
      lines_from(product.x, product.cols, place.token, product.n_tokens, Shape::kTokens);
  const Lines rows = lines_from(product.w, product.cols, place.row, product.rows, Shape::kRows);
  const auto cols = static_cast<uint32_t>(product.cols);
  const int line = static_cast<int>(threadIdx.x) / 8, chunk = static_cast<int>(threadIdx.x) % 8;
  const auto copy = [&](uint32_t step, uint16_t* stage) {
    const uint32_t k = step * Shape::kDepth + static_cast<uint32_t>(chunk) * 8;
    uint16_t* const to = stage + Tile::place(line, chunk);
    GRETA_UNROLL
    for (int pass = 0; pass < (Shape::kTokens + Shape::kRows) / Shape::kPassLines; ++pass) {
      const int skipped = pass * Shape::kPassLines;
      const bool is_row = skipped >= Shape::kTokens;
      const Lines& lines = is_row ? rows : tokens;
      const auto wanted = static_cast<uint32_t>(line + skipped - (is_row ? Shape::kTokens : 0));
      copy_async16(to + skipped * Shape::kDepth,
                   lines.first + ((wanted < lines.last ? wanted : lines.last) * cols + k));
    }
  };

  const uint32_t n_steps = cols / Shape::kDepth;
  const auto chunk_steps = static_cast<uint32_t>(mfma_chunk_columns(product.cols)) / Shape::kDepth;
  constexpr uint32_t kAhead = Shape::kStages - 2;
  for (uint32_t step = 0; step < kAhead; ++step) {
    if (step < n_steps) copy(step, stages + step * Shape::kStageValues);
    commit_copies();
  }
  const int own_tokens = wave_id() / 4 * Tile::kLeft * Shape::kDepth;
  uint32_t step = 0;
  GRETA_NO_UNROLL
  do {
    const bool later_chunk = step > 0;
    const uint32_t chunk_end = std::min(step + chunk_steps, n_steps);
    typename Tile::Sums sums = {};
    Tile::begin();
    GRETA_NO_UNROLL
    for (; step < chunk_end; ++step) {
      wait_for_copies<kAhead - 1>();
      Tile::publish();
      __syncthreads();  // the stage is there, and the products of the one before the last are done
      if (step + kAhead < n_steps) {
        copy(step + kAhead, stages + (step + kAhead) % Shape::kStages * Shape::kStageValues);
      }
      commit_copies();
      const uint16_t* const stage = stages + step % Shape::kStages * Shape::kStageValues;
      GRETA_UNROLL
      for (int slice = 0; slice < Shape::kDepth / Tile::kDepth; ++slice) {
        Tile::multiply_add(stage + own_tokens, stage + Shape::kTokens * Shape::kDepth, slice, sums);
      }
      Tile::commit();
      Tile::template wait<1>();
    }
    Tile::template wait<0>();
    store_sums<Tile, WaveTile<kType, 16>>(product, place, sums, later_chunk);
  } while (step < n_steps);
}

}  // namespace

bool fits_wide_matmul(const HalfProduct& product) {
  return product.cols > 0 && product.cols % Shape::kDepth == 0;
}

void wide_matmul(std::span<const HalfProduct> products, Stream& stream) {
  Products all{};
  int64_t n_blocks = 0;
  for (size_t i = 0; i < kMaxProducts; ++i) {
    all.first_block[i] = std::numeric_limits<uint32_t>::max();
    if (i >= products.size()) continue;
    all.product[i] = products[i];
    all.first_block[i] = blocks_for(n_blocks, 1);
    n_blocks += int64_t{blocks_for(products[i].n_tokens, Shape::kTokens)} *
                blocks_for(products[i].rows, Shape::kRows);
  }
  launch({"matmul_mfma", blocks_for(n_blocks, 1), Shape::kThreads, Shape::kSharedBytes}, stream,
         products[0].type == HalfType::kF16 ? wide_kernel<HalfType::kF16>
                                            : wide_kernel<HalfType::kBF16>,
         all);
}

#else

bool fits_wide_matmul(const HalfProduct&) { return false; }

void wide_matmul(std::span<const HalfProduct>, Stream&) {
  throw std::logic_error("matmul_mfma: this device has no warpgroups");
}

#endif

}  // namespace greta
