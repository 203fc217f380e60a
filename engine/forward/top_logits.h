#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace greta {

/// The greatest logits of one token, greatest first; −1 and NaN where the vocabulary has no more.
/// The value of an id is NaN when no further logit is a number.
struct TopLogits {
  static constexpr int kCount = 5;
  static constexpr int64_t kWidth =
      2 * kCount;  ///< values and indices, as Backend::top_k leaves them
  std::array<int32_t, kCount> ids;
  std::array<float, kCount> values;
};

/// What Backend::top_k left, read to the host.
TopLogits unpack_top(std::span<const float, TopLogits::kWidth> top);

}  // namespace greta
