#include "engine/hip/rope_tables.h"

#include <algorithm>
#include <utility>

#include "kernels/gpu/elementwise.h"

namespace greta {

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
    // What waits in the queue needs no table, or it would have it.
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
