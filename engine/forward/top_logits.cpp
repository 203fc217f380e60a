#include "engine/forward/top_logits.h"

#include <bit>
#include <cmath>

namespace greta {

TopLogits unpack_top(std::span<const float, TopLogits::kWidth> top) {
  TopLogits unpacked{};
  for (size_t i = 0; i < TopLogits::kCount; ++i) {
    unpacked.values[i] = top[i];
    const auto id = std::bit_cast<int32_t>(top[TopLogits::kCount + i]);
    unpacked.ids[i] = std::isnan(top[i]) ? -1 : id;
  }
  return unpacked;
}

}  // namespace greta
