#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>

namespace greta {

/// The greatest logits of one token, greatest first; −1 and NaN where no further logit is a number.
struct TopLogits {
  static constexpr int kCount = 5;
  static constexpr int64_t kWidth =
      2 * kCount;  ///< values and indices, as Backend::top_k leaves them
  std::array<int32_t, kCount> ids;
  std::array<float, kCount> values;

  /// Whether one of them can be chosen: none can when all are NaN or −inf.
  bool has_choice() const { return values[0] > -std::numeric_limits<float>::infinity(); }
};

/// What Backend::top_k left, read to the host.
TopLogits unpack_top(std::span<const float, TopLogits::kWidth> top);

}  // namespace greta
