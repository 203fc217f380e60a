#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "engine/forward/batch.h"
#include "engine/hip/scratch.h"
#include "kernels/gpu/device.h"

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

}  // namespace greta
