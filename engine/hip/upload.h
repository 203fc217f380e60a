#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/forward/backend.h"
#include "kernels/gpu/device.h"
#include "kernels/matrix.h"

namespace greta {

/// Brings weights from a mapped file to the device: threads read pieces of it ahead into pinned
/// memory, from which they are copied in their order, beside what is read.
class WeightUploader {
 public:
  explicit WeightUploader(Stream& stream) : stream_(stream) {}

  /// Queues to[i] = matrix i in the layout of the device, to[i]: file[i].bytes(), device. The
  /// file's bytes have been read when it returns.
  void copy(std::span<const Matrix> file, std::span<std::byte* const> to,
            const LoadProgress& on_load);

 private:
  class Reader;

  Stream& stream_;
  PinnedBuffer<std::byte> staging_;     ///< slots of a piece each
  std::vector<Event> copied_;           ///< from a slot to the device
  DeviceBuffer<std::byte> as_in_file_;  ///< of one matrix
};

}  // namespace greta
