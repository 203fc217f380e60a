#include "engine/forward/top_logits.h"

#include <bit>

namespace greta {

TopLogits unpack_top(std::span<const float, TopLogits::kWidth> top) {
  TopLogits unpacked{};
  for (size_t i = 0; i < TopLogits::kCount; ++i) {
    unpacked.values[i] = top[i];
    unpacked.ids[i] = std::bit_cast<int32_t>(top[TopLogits::kCount + i]);
  }
  return unpacked;
}

}  // namespace greta
