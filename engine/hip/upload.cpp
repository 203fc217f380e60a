#include "engine/hip/upload.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "kernels/gpu/weight_layout.h"

namespace greta {
namespace {

constexpr size_t kPieceBytes = size_t{32} << 20;
constexpr size_t kGrain = size_t{1} << 20;
constexpr unsigned kMaxThreads = 8;  // more do not read faster from the page cache

}  // namespace

WeightUploader::WeightUploader(Stream& stream)
    : stream_(stream),
      pool_(static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, kMaxThreads))) {}

void WeightUploader::copy(const Matrix& file, std::byte* to) {
  const size_t bytes = file.bytes();
  std::byte* raw = to;
  if (has_planes(file.type)) {
    if (as_in_file_.size() < bytes) {
      stream_.synchronize();  // its last contents may be on their way
      as_in_file_ = {};
      as_in_file_ = DeviceBuffer<std::byte>(bytes, "weights as in the file");
    }
    raw = as_in_file_.data();
  }
  for (size_t first = 0; first < bytes; first += kPieceBytes) {
    Piece& piece = pieces_[n_pieces_++ % pieces_.size()];
    if (piece.memory.size() == 0) piece.memory = PinnedBuffer<std::byte>(kPieceBytes, "weights");
    piece.copied.synchronize();
    const size_t count = std::min(kPieceBytes, bytes - first);
    pool_.run(static_cast<int64_t>(count), kGrain, [&](int64_t begin, int64_t end) {
      std::memcpy(piece.memory.data() + begin, file.data + first + static_cast<size_t>(begin),
                  static_cast<size_t>(end - begin));
    });
    copy_to_device<std::byte>({piece.memory.data(), count}, raw + first, stream_);
    piece.copied.record(stream_);
  }
  if (raw == to) return;
  Matrix on_device = file;
  on_device.data = raw;
  arrange_planes(on_device, to, stream_);
}

}  // namespace greta
