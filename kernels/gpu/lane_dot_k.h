#pragma once

#include "kernels/gpu/lane_dot.h"

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

__device__ inline uint32_t lane_in_block(uint32_t lane) { return lane % 4; }

struct Quarters {
  static constexpr int kColumns = kQuarter;
  static constexpr int kRowMultiple = 256;

  /// Whether the row has the lane's quarter.
  __device__ static bool present(uint32_t cols, uint32_t step, uint32_t lane) {
    return (step * kTeam + lane) * kQuarter < cols;
  }
  __device__ static uint32_t block_index(uint32_t row, uint32_t cols, uint32_t step,
                                         uint32_t lane) {
    return row * (cols / 256) + step * (kTeam / 4) + lane / 4;
  }
};

// ---- q4_k, q5_k: quarter c has sub-blocks 2c and 2c + 1, the low and the high nibbles of 32
// bytes.

struct QuarterInOrder : Quarters {
  static constexpr int kSlots = 2;
  static constexpr bool kHasMins = true;

  __device__ static GroupPlace group_place(uint32_t group) {
    constexpr uint32_t kGroups = kQuarter / 4;
    return {group / kGroups, group % kGroups};
  }
};

/// weight = scale·q − min, of a sub-block of a quarter. head: d and dmin, then what
/// unpack_scale_min() explains.
template <int kSlot>
__device__ inline Scale sub_block_scale(const Words4& head, uint32_t lane) {
  // From sub-block 4 on the low nibbles of scales and mins share bytes, apart from their high bits.
  const uint32_t quarter = lane_in_block(lane);
  const bool apart = quarter >= 2;
  const uint32_t shift = quarter % 2 * 16;
  const uint32_t to_high = apart ? shift + 2 : shift, to_min = apart ? shift + 4 : shift;
  const uint32_t low_scales = (apart ? head.word[3] : head.word[1]) >> shift;
  const uint32_t low_mins = (apart ? head.word[3] : head.word[2]) >> to_min;
  const uint32_t scales = (low_scales & 0x0f0fu) | (head.word[1] >> to_high & 0x3030u);
  const uint32_t mins = (low_mins & 0x0f0fu) | (head.word[2] >> to_high & 0x3030u);
  const float2 d = f16_pair(head.word[0]);
  return {d.x * byte_value<kSlot>(scales), d.y * byte_value<kSlot>(mins)};
}

template <WeightType kType>
struct QuarterDot : QuarterInOrder, DigitDot<QuarterDot<kType>> {
  static constexpr bool kFifths = kType == WeightType::kQ5_K;

  struct Raw {
    Words4 qs[2];
    Words2 fifths;  ///< of the two sub-blocks, where they lie apart
    Words4 head;
  };

  template <bool>
  __device__ static void load(const DeviceWeights& w, uint32_t row, uint32_t cols, uint32_t step,
                              uint32_t lane, Raw& raw) {
    if (!present(cols, step, lane)) return;
    const uint32_t block = block_index(row, cols, step, lane);
    const std::byte* const qs = piece_at<16>(w.plane[0], 8 * block + lane_in_block(lane));
    raw.qs[0] = load_once(qs);
    raw.qs[1] = load_once(qs + 64);
    if constexpr (kFifths) {
      raw.fifths = load_pair(piece_at<8>(w.plane[1], 4 * block + lane_in_block(lane)));
    }
    raw.head = load_shared_field(plane_at < kType, kFifths ? 2 : 1 > (w, block));
  }

  /// High nibbles alone are taken as 16·(q − 8).
  __device__ static void words(const Raw& raw, int chunk, uint32_t (&w)[4]) {
    GRETA_UNROLL
    for (int i = 0; i < 4; ++i) {
      const uint32_t word = raw.qs[chunk % 2].word[i];
      if constexpr (kFifths) {
        const uint32_t fifths = fifths_at(raw.fifths.word[chunk / 2], chunk % 2 * 4 + i);
        w[i] = ((chunk < 2 ? word : word >> 4) & 0x0f0f0f0fu) | (fifths & 0x10101010u);
      } else {
        w[i] = chunk < 2 ? word & 0x0f0f0f0fu : high_nibbles(word);
      }
    }
  }
  __device__ static Scale scale(const Raw& raw, uint32_t lane, int slot) {
    if (slot == 0) return sub_block_scale<0>(raw.head, lane);
    const Scale s = sub_block_scale<1>(raw.head, lane);
    if constexpr (kFifths) return s;
    return {s.scale * 0x1p-4f, fmaf(s.scale, -8.0f, s.min)};
  }

 private:
  /// Those of values 4i .. 4i + 3, at bit 4 of each byte.
  __device__ static uint32_t fifths_at(uint32_t bits, int i) {
    return i < 4 ? bits << (4 - i) : bits >> (i - 4);
  }
};

// ---- q2_k, q3_k, q6_k: a lane takes every other sub-block of a half. Of half h and a = 0 or 1:
// ---- those of the columns from 128h + 32g + 16a on, g = 0 .. 3.

struct EveryOther : Quarters {
  static constexpr int kSlots = 4;

  __device__ static GroupPlace group_place(uint32_t group) {
    const uint32_t half = group / 32, g = group % 32 / 8, a = group % 8 / 4;
    return {2 * half + a, 4 * g + group % 4};
  }
};

// A piece of qs has their low two bits.

struct Q2KDot : EveryOther, DigitDot<Q2KDot> {
  static constexpr bool kHasMins = true;
  struct Raw {
    Words4 qs;
    uint32_t scales;  ///< of g = 0 .. 3, with their mins
    uint32_t head;    ///< d and dmin
  };

  template <bool>
  __device__ static void load(const DeviceWeights& w, uint32_t row, uint32_t cols, uint32_t step,
                              uint32_t lane, Raw& raw) {
    if (!present(cols, step, lane)) return;
    const uint32_t block = block_index(row, cols, step, lane);
    raw.qs = load_once(piece_at<16>(w.plane[0], 4 * block + lane_in_block(lane)));
    raw.scales = load_word(piece_at<4>(w.plane[1], 4 * block + lane_in_block(lane)));
    raw.head = load_word(plane_at<WeightType::kQ2_K, 2>(w, block));
  }

  /// Bytes 64·(q − 2) of sub-block g.
  __device__ static void words(const Raw& raw, int g, uint32_t (&w)[4]) {
    GRETA_UNROLL
    for (int i = 0; i < 4; ++i) {
      w[i] = masked_xor<0xc0c0c0c0u, 0x80808080u>(raw.qs.word[i] << (6 - 2 * g));
    }
  }
  __device__ static Scale scale(const Raw& raw, uint32_t, int g) {
    const float2 d = f16_pair(raw.head);
    const float scale = d.x * static_cast<float>(raw.scales >> 8 * g & 15);
    const float min = d.y * static_cast<float>(raw.scales >> (8 * g + 4) & 15);
    return {scale * 0x1p-6f, fmaf(scale, -2.0f, min)};
  }
};

struct Q3KDot : EveryOther, DigitDot<Q3KDot> {
  static constexpr bool kHasMins = false;
  struct Raw {
    Words4 qs;
    Words2 thirds;       ///< of g = 0, 1 and of g = 2, 3
    uint32_t scales[3];  ///< of the block
    uint16_t d;
  };

  template <bool>
  __device__ static void load(const DeviceWeights& w, uint32_t row, uint32_t cols, uint32_t step,
                              uint32_t lane, Raw& raw) {
    constexpr WeightType kType = WeightType::kQ3_K;
    if (!present(cols, step, lane)) return;
    const uint32_t block = block_index(row, cols, step, lane);
    raw.qs = load_once(piece_at<16>(w.plane[0], 4 * block + lane_in_block(lane)));
    raw.thirds = load_pair(piece_at<8>(w.plane[1], 4 * block + lane_in_block(lane)));
    const std::byte* const scales = plane_at<kType, 2>(w, block);
    GRETA_UNROLL
    for (int i = 0; i < 3; ++i) raw.scales[i] = load_word(scales + 4 * i);
    raw.d = load_half(plane_at<kType, 3>(w, block));
  }

  /// Bytes 32·(q − 4) of sub-block g.
  __device__ static void words(const Raw& raw, int g, uint32_t (&w)[4]) {
    GRETA_UNROLL
    for (int i = 0; i < 4; ++i) {
      const uint32_t qs = raw.qs.word[i];
      const uint32_t low = g < 3 ? qs << (5 - 2 * g) : qs >> 1;
      const uint32_t high = raw.thirds.word[g / 2] << (7 - (g % 2 * 4 + i));
      w[i] = (low & 0x60606060u) | top_bits(high);
    }
  }
  /// Of sub-block 8h + 2g + a; blocks.h says how its bits lie.
  __device__ static Scale scale(const Raw& raw, uint32_t lane, int g) {
    const uint32_t half = lane_in_block(lane) / 2, a = lane_in_block(lane) % 2;
    const uint32_t at = 4 * half + 8 * a + (g % 2 == 0 ? 0 : 16);
    const uint32_t low = raw.scales[g / 2] >> at & 15;
    const uint32_t high = raw.scales[2] >> (g < 2 ? at : at + 2) & 3;
    const auto scale = static_cast<float>(static_cast<int>(low | high << 4) - 32);
    return {f16_value(raw.d) * scale * 0x1p-5f, 0.0f};
  }
};

// The low bits are the low nibbles of two pieces of ql (g = 0, 1) and the high ones (g = 2, 3), and
// one piece of qh has the high bits.

struct Q6KDot : EveryOther, DigitDot<Q6KDot> {
  static constexpr bool kHasMins = false;
  struct Raw {
    Words4 ql[2];
    Words4 qh;
    uint32_t scales;  ///< of g = 0 .. 3
    uint16_t d;
  };

  template <bool>
  __device__ static void load(const DeviceWeights& w, uint32_t row, uint32_t cols, uint32_t step,
                              uint32_t lane, Raw& raw) {
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

  /// Bytes 4·(q − 32) of sub-block g.
  __device__ static void words(const Raw& raw, int g, uint32_t (&w)[4]) {
    GRETA_UNROLL
    for (int i = 0; i < 4; ++i) {
      const uint32_t low = raw.ql[g % 2].word[i], high = raw.qh.word[i] << (6 - 2 * g);
      w[i] = ((g < 2 ? low << 2 : low >> 2) & 0x3c3c3c3cu) |
             masked_xor<0xc0c0c0c0u, 0x80808080u>(high);
    }
  }
  __device__ static Scale scale(const Raw& raw, uint32_t, int g) {
    const auto scale = static_cast<float>(static_cast<int8_t>(raw.scales >> 8 * g));
    return {f16_value(raw.d) * scale * 0x1p-2f, 0.0f};
  }
};

}  // namespace lane_dot_detail

template <>
struct LaneDot<WeightType::kQ2_K> : lane_dot_detail::Q2KDot {};
template <>
struct LaneDot<WeightType::kQ3_K> : lane_dot_detail::Q3KDot {};
template <>
struct LaneDot<WeightType::kQ4_K> : lane_dot_detail::QuarterDot<WeightType::kQ4_K> {};
template <>
struct LaneDot<WeightType::kQ5_K> : lane_dot_detail::QuarterDot<WeightType::kQ5_K> {};
template <>
struct LaneDot<WeightType::kQ6_K> : lane_dot_detail::Q6KDot {};

}  // namespace greta
