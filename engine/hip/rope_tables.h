#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "engine/forward/batch.h"
#include "engine/hip/op_queue.h"
#include "engine/hip/scratch.h"
#include "kernels/gpu/device.h"
#include "kernels/rows.h"

namespace greta {

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
