#include "engine/hip/batch_input.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "kernels/gpu/elementwise.h"

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

RopeTables::RopeTables(Stream& stream, OpQueue& ops, std::function<void()> make_room)
    : stream_(stream), ops_(ops), make_room_(std::move(make_room)) {}

RopeTables::Table& RopeTables::find(const RopeTurn& turn, int64_t shift) {
  for (Table& table : tables_) {
    const bool same = table.shift == shift && table.magnitude == turn.magnitude &&
                      std::ranges::equal(table.inv_freq, turn.inv_freq);
    if (same) return table;
  }
  ops_.go_direct();  // nothing can be allocated while a batch is recorded
  Table& table = tables_.emplace_back(
      Table{.inv_freq = {turn.inv_freq.begin(), turn.inv_freq.end()},
            .magnitude = turn.magnitude,
            .shift = shift,
            .on_device = DeviceBuffer<double>(turn.inv_freq.size(), "frequencies"),
            .values = Scratch<float>("cosines and sines", make_room_)});
  copy_to_device<double>(turn.inv_freq, table.on_device.data(), stream_);
  return table;
}

const float* RopeTables::get(const RopeTurn& turn, const int32_t* pos, int64_t shift,
                             std::span<const Stretch> stretches) {
  Table& t = find(turn, shift);
  if (t.made_in == batch_) return t.made;
  const auto half = static_cast<int64_t>(turn.inv_freq.size());
  int64_t n_tokens = 0;
  for (const Stretch& one : stretches) n_tokens += one.n_tokens;
  float* const values = t.values.get(static_cast<size_t>(2 * half * n_tokens));
  float* its_values = values;
  for (const Stretch& one : stretches) {
    // An op that waits in the queue needs no table, or it would have it.
    ops_.add_before(
        Signature(kRopeTable, t.on_device.data(), pos, shift, one.n_tokens, half, its_values),
        [=, this, n = one.n_tokens, freq = t.on_device.data(), magnitude = turn.magnitude] {
          rope_table(freq, magnitude, pos, shift, n, half, its_values, stream_);
        });
    its_values += 2 * half * one.n_tokens;
    ++pos;
  }
  t.made = values;
  t.made_in = batch_;
  return values;
}

}  // namespace greta
