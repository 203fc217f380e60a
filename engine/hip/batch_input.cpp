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

void BatchInput::upload(std::span<const int32_t> tokens, int64_t first_pos) {
  if (first_pos < 0 || first_pos > std::numeric_limits<int32_t>::max() / 2) {
    throw std::invalid_argument("position " + std::to_string(first_pos) + " is out of range");
  }
  const size_t n = tokens.size() + 1;
  int32_t* const on_device = words_.get(std::max(n, kLeastWords));
  pos_ = on_device;
  Slot& slot = slots_[n_batches_++ % kSlots];
  slot.copied.synchronize();
  if (slot.words.size() < n) slot.words = PinnedBuffer<int32_t>(n, "tokens and position");
  slot.words[0] = static_cast<int32_t>(first_pos);
  std::copy(tokens.begin(), tokens.end(), slot.words.data() + 1);
  copy_to_device<int32_t>({slot.words.data(), n}, on_device, stream_);
  slot.copied.record(stream_);
}

}  // namespace greta
