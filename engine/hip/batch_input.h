#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "engine/forward/backend.h"
#include "engine/hip/op_queue.h"
#include "kernels/gpu/device.h"
#include "kernels/rows.h"

namespace greta {

/// Tokens and positions of a batch on their way to the device. Those of one sequence are always in
/// the same place there, so that a recorded batch finds those of another one.
class BatchInput {
 public:
  /// make_room: as Scratch has it.
  BatchInput(Stream& stream, std::function<void()> make_room);

  /// Queues the copy of one batch's. tokens: empty where the device has them. Throws
  /// std::invalid_argument for a position out of range.
  void upload(std::span<const int32_t> tokens, std::span<const Stretch> stretches);

  const int32_t* pos() const { return pos_; }                 ///< device, [stretches]: of the first
  const int32_t* ids() const { return pos_ + n_positions_; }  ///< device, [tokens]

 private:
  // Copies under way from as many batches.
  static constexpr size_t kSlots = 4;
  struct Slot {
    PinnedBuffer<int32_t> words;
    Event copied;
  };
  Stream& stream_;
  Scratch<int32_t> words_;  // positions, then ids
  std::array<Slot, kSlots> slots_;
  size_t n_batches_ = 0;
  const int32_t* pos_ = nullptr;
  size_t n_positions_ = 1;
};

/// Cosines and sines of a batch's positions, for each turn and each shift of the positions that is
/// asked for: made when a batch first asks.
class RopeTables {
 public:
  /// make_room: as Scratch has it.
  RopeTables(Stream& stream, OpQueue& ops, std::function<void()> make_room);

  void begin() { ++batch_; }  ///< another batch: other positions

  /// [tokens, turn.inv_freq.size(), 2], device; for the tokens of each stretch, from position
  /// pos[stretch] + shift on.
  const float* get(const RopeTurn& turn, const int32_t* pos, int64_t shift,
                   std::span<const Stretch> stretches);

 private:
  struct Table {
    std::vector<double> inv_freq;
    double magnitude;
    int64_t shift;
    DeviceBuffer<double> on_device;  // inv_freq
    Scratch<float> values;
    const float* made = nullptr;
    size_t made_in = 0;  // number of the batch
  };
  Table& find(const RopeTurn& turn, int64_t shift);

  Stream& stream_;
  OpQueue& ops_;
  std::function<void()> make_room_;
  std::deque<Table> tables_;
  size_t batch_ = 0;
};

}  // namespace greta
