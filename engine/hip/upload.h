#pragma once

#include <array>
#include <cstddef>

#include "kernels/cpu/thread_pool.h"
#include "kernels/gpu/device.h"
#include "kernels/matrix.h"

namespace greta {

/// Brings weights from a mapped file to the device: through pinned memory, pages touched by several
/// threads, beside the copy of the piece before.
class WeightUploader {
 public:
  explicit WeightUploader(Stream& stream);

  /// Queues `to` = the matrix in the layout of the device. to: file.bytes(), device. The file's
  /// bytes have been read when it returns.
  void copy(const Matrix& file, std::byte* to);

 private:
  struct Piece {
    PinnedBuffer<std::byte> memory;
    Event copied;
  };
  Stream& stream_;
  ThreadPool pool_;
  std::array<Piece, 2> pieces_;
  size_t n_pieces_ = 0;
  DeviceBuffer<std::byte> as_in_file_;
};

}  // namespace greta
