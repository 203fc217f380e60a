#include "engine/hip/batch_input.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace greta {
namespace {

constexpr size_t kLeastWords = 64;

}  // namespace

BatchInput::BatchInput(Stream& stream, std::function<void()> make_room)
    : stream_(stream), words_("tokens and position", std::move(make_room)) {}

void BatchInput::upload(std::span<const int32_t> tokens, std::span<const Stretch> stretches) {
  for (const Stretch& one : stretches) {
    if (one.first_pos >= 0 && one.first_pos <= std::numeric_limits<int32_t>::max() / 2) continue;
    throw std::invalid_argument("position " + std::to_string(one.first_pos) + " is out of range");
  }
  n_positions_ = stretches.size();
  const size_t n = tokens.size() + n_positions_;
  int32_t* const on_device = words_.get(std::max(n, kLeastWords));
  pos_ = on_device;
  Slot& slot = slots_[n_batches_++ % kSlots];
  slot.copied.synchronize();
  if (slot.words.size() < n) slot.words = PinnedBuffer<int32_t>(n, "tokens and position");
  for (size_t i = 0; i < n_positions_; ++i) {
    slot.words[i] = static_cast<int32_t>(stretches[i].first_pos);
  }
  std::copy(tokens.begin(), tokens.end(), slot.words.data() + n_positions_);
  copy_to_device<int32_t>({slot.words.data(), n}, on_device, stream_);
  slot.copied.record(stream_);
}

}  // namespace greta
