#pragma once

#include "kernels/lane_dot.h"

// LaneDot of the k-types: a lane takes 64 values of a block, with all that scales them, so a block
// has four lanes and a step sixteen blocks.

namespace greta {
namespace lane_dot_detail {

inline constexpr int kQuarter = 64;  // columns

/// The address of a piece of kBytes of a plane by its number: one multiplication.
template <int kBytes>
__device__ inline const std::byte* piece_at(const std::byte* plane, uint32_t number) {
  return plane + static_cast<uint64_t>(number) * kBytes;
}

__device__ inline uint32_t lane_in_block(int lane) { return static_cast<uint32_t>(lane) % 4; }

struct Quarters {
  static constexpr int kColumns = kQuarter;
  static constexpr int kRowMultiple = 256;

  /// Whether the row has the lane's quarter.
  __device__ static bool present(uint32_t cols, int step, int lane) {
    return static_cast<uint32_t>(step * kTeam + lane) * kQuarter < cols;
  }
  __device__ static uint32_t block_index(uint32_t row, uint32_t cols, int step, int lane) {
    return row * (cols / 256) + static_cast<uint32_t>(step * (kTeam / 4) + lane / 4);
  }
};

// ---- q4_k, q5_k: quarter c has sub-blocks 2c and 2c + 1, the low and the high nibbles of 32
// bytes.

struct QuarterInOrder : Quarters {
  static constexpr bool kHasMins = true;

  __device__ static GroupPlace group_place(int group) {
    constexpr int kGroups = kQuarter / 4;
    return {group / kGroups, group % kGroups};
  }
};

/// weight = scale·(q − kZero) − min, of the quarter's two sub-blocks.
struct Scales {
  float scale[2], min[2];
};

/// head: d and dmin, then what unpack_scale_min() explains, of two sub-blocks at once.
template <int kZero>
__device__ inline Scales quarter_scales(const Words4& head, int quarter) {
  const int shift = quarter % 2 * 16;
  const uint32_t a = head.word[1] >> shift, b = head.word[2] >> shift, c = head.word[3] >> shift;
  const bool first = quarter < 2;
  const uint32_t scales = first ? a & 0x3f3fu : (c & 0x0f0fu) | (a >> 2 & 0x3030u);
  const uint32_t mins = first ? b & 0x3f3fu : (c >> 4 & 0x0f0fu) | (b >> 2 & 0x3030u);
  const float2 d = f16_pair(head.word[0]);
  Scales result;
  GRETA_UNROLL
  for (int s = 0; s < 2; ++s) {
    const auto scale = static_cast<float>(scales >> 8 * s & 0xff);
    const auto min = static_cast<float>(mins >> 8 * s & 0xff);
    result.scale[s] = d.x * scale;
    result.min[s] = fmaf(d.y, min, result.scale[s] * -static_cast<float>(kZero));
  }
  return result;
}

/// Adds a quarter's products to the sums: parts of Σ q·x, one per sub-block, and Σ x.
template <int kTokens>
__device__ inline void add_quarter(const Scales& scales, const float (&low)[kTokens],
                                   const float (&high)[kTokens], const LaneX<kTokens>& x,
                                   float (&sums)[kTokens]) {
  GRETA_UNROLL
  for (int t = 0; t < kTokens; ++t) {
    const float2 x_sum = x.sum(t);
    float sum = fmaf(scales.scale[0], low[t], sums[t]);
    sum = fmaf(-scales.min[0], x_sum.x, sum);
    sum = fmaf(scales.scale[1], high[t], sum);
    sums[t] = fmaf(-scales.min[1], x_sum.y, sum);
  }
}

struct Q4KDot : QuarterInOrder {
  struct Raw {
    Words4 qs[2];
    Words4 head;
  };

  template <bool>
  __device__ static void load(const DeviceWeights& w, uint32_t row, uint32_t cols, int step,
                              int lane, Raw& raw) {
    constexpr WeightType kType = WeightType::kQ4_K;
    if (!present(cols, step, lane)) return;
    const uint32_t block = block_index(row, cols, step, lane);
    const std::byte* const qs = piece_at<16>(w.plane[0], 8 * block + lane_in_block(lane));
    raw.qs[0] = load_once(qs);
    raw.qs[1] = load_once(qs + 64);
    raw.head = load_shared_field(plane_at<kType, 1>(w, block));
  }

  template <int kRows, int kTokens>
  __device__ static void add(const Raw (&raw)[kRows], int lane, const LaneX<kTokens>& lane_x,
                             LaneSums<kRows, kTokens>& sums) {
    LaneSums<kRows, kTokens> low{}, high{};
    GRETA_UNROLL
    for (int i = 0; i < 8; ++i) {
      Floats4 low_x[kTokens], high_x[kTokens];
      lane_x.load(i, low_x);
      lane_x.load(8 + i, high_x);
      GRETA_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const uint32_t word = raw[r].qs[i / 4].word[i % 4];
        float q[4];
        fields<4, 0, 8>(word, q);
        add_products(q, low_x, low[r]);
        fields<4, 4, 8>(word, q);
        add_products(q, high_x, high[r]);
      }
    }
    GRETA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      add_quarter(quarter_scales<8>(raw[r].head, lane % 4), low[r], high[r], lane_x, sums[r]);
    }
  }
};

struct Q5KDot : QuarterInOrder {
  struct Raw {
    Words4 qs[2];
    Words2 fifths;  ///< of the two sub-blocks
    Words4 head;
  };

  template <bool>
  __device__ static void load(const DeviceWeights& w, uint32_t row, uint32_t cols, int step,
                              int lane, Raw& raw) {
    constexpr WeightType kType = WeightType::kQ5_K;
    if (!present(cols, step, lane)) return;
    const uint32_t block = block_index(row, cols, step, lane);
    const std::byte* const qs = piece_at<16>(w.plane[0], 8 * block + lane_in_block(lane));
    raw.qs[0] = load_once(qs);
    raw.qs[1] = load_once(qs + 64);
    raw.fifths = load_pair(piece_at<8>(w.plane[1], 4 * block + lane_in_block(lane)));
    raw.head = load_shared_field(plane_at<kType, 2>(w, block));
  }

  template <int kRows, int kTokens>
  __device__ static void add(const Raw (&raw)[kRows], int lane, const LaneX<kTokens>& lane_x,
                             LaneSums<kRows, kTokens>& sums) {
    LaneSums<kRows, kTokens> low{}, high{};
    GRETA_UNROLL
    for (int i = 0; i < 8; ++i) {
      Floats4 low_x[kTokens], high_x[kTokens];
      lane_x.load(i, low_x);
      lane_x.load(8 + i, high_x);
      GRETA_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const uint32_t word = raw[r].qs[i / 4].word[i % 4];
        float q[4];
        fields<5, 0, 16>(join(word, fifths_at(raw[r].fifths.word[0], i)), q);
        add_products(q, low_x, low[r]);
        fields<5, 0, 16>(join(word >> 4, fifths_at(raw[r].fifths.word[1], i)), q);
        add_products(q, high_x, high[r]);
      }
    }
    GRETA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      add_quarter(quarter_scales<16>(raw[r].head, lane % 4), low[r], high[r], lane_x, sums[r]);
    }
  }

 private:
  /// Those of values 4i .. 4i + 3, at bit 4 of each byte.
  __device__ static uint32_t fifths_at(uint32_t bits, int i) {
    return i < 4 ? bits << (4 - i) : bits >> (i - 4);
  }
};

// ---- q6_k: a lane takes every other sub-block of a half. Of half h and a = 0 or 1: those of the
// ---- columns from 128h + 32g + 16a on, g = 0 .. 3. Their low bits are the low nibbles of two
// ---- pieces of ql (g = 0, 1) and the high ones (g = 2, 3), and one piece of qh has their high
// bits.

struct Q6KDot : Quarters {
  static constexpr bool kHasMins = false;
  struct Raw {
    Words4 ql[2];
    Words4 qh;
    uint32_t scales;  ///< of g = 0 .. 3
    uint16_t d;
  };

  __device__ static GroupPlace group_place(int group) {
    const int half = group / 32, g = group % 32 / 8, a = group % 8 / 4;
    return {2 * half + a, 4 * g + group % 4};
  }

  template <bool>
  __device__ static void load(const DeviceWeights& w, uint32_t row, uint32_t cols, int step,
                              int lane, Raw& raw) {
    constexpr WeightType kType = WeightType::kQ6_K;
    if (!present(cols, step, lane)) return;
    const uint32_t block = block_index(row, cols, step, lane);
    const uint32_t half = lane_in_block(lane) / 2, a = lane_in_block(lane) % 2;
    const std::byte* const ql = piece_at<16>(w.plane[0], 8 * block + 4 * half + a);
    raw.ql[0] = load_once(ql);
    raw.ql[1] = load_once(ql + 32);
    raw.qh = load_once(piece_at<16>(w.plane[1], 4 * block + 2 * half + a));
    raw.scales = load_word(piece_at<4>(w.plane[2], 4 * block + lane_in_block(lane)));
    raw.d = load_half(plane_at<kType, 3>(w, block));
  }

  template <int kRows, int kTokens>
  __device__ static void add(const Raw (&raw)[kRows], int, const LaneX<kTokens>& lane_x,
                             LaneSums<kRows, kTokens>& sums) {
    GRETA_UNROLL
    for (int piece = 0; piece < 2; ++piece) {
      LaneSums<kRows, kTokens> low{}, high{};
      GRETA_UNROLL
      for (int i = 0; i < 4; ++i) {
        Floats4 x[kTokens];
        float q[4];
        lane_x.load(4 * piece + i, x);
        GRETA_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const uint32_t pairs = raw[r].qh.word[i] << (4 - 2 * piece);
          fields<6, 0, 32>(join(raw[r].ql[piece].word[i], pairs), q);
          add_products(q, x, low[r]);
        }
        lane_x.load(4 * (piece + 2) + i, x);
        GRETA_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const uint32_t pairs = raw[r].qh.word[i] >> 2 * piece;
          fields<6, 0, 32>(join(raw[r].ql[piece].word[i] >> 4, pairs), q);
          add_products(q, x, high[r]);
        }
      }
      GRETA_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const float d = f16_value(raw[r].d);
        add_scaled(d * scale_at(raw[r].scales, piece), low[r], sums[r]);
        add_scaled(d * scale_at(raw[r].scales, piece + 2), high[r], sums[r]);
      }
    }
  }

 private:
  __device__ static float scale_at(uint32_t scales, int g) {
    return static_cast<float>(static_cast<int8_t>(scales >> 8 * g));
  }
};

}  // namespace lane_dot_detail

template <>
struct LaneDot<WeightType::kQ4_K> : lane_dot_detail::Q4KDot {};
template <>
struct LaneDot<WeightType::kQ5_K> : lane_dot_detail::Q5KDot {};
template <>
struct LaneDot<WeightType::kQ6_K> : lane_dot_detail::Q6KDot {};

}  // namespace greta
