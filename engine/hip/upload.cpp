#include "engine/hip/upload.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>

#include "kernels/gpu/weight_layout.h"

namespace greta {
namespace {

constexpr size_t kPieceBytes = size_t{2} << 20;
constexpr unsigned kMaxThreads = 16;
constexpr size_t kSlotsBeyondThreads = 16;  // on their way to the device

/// Part of a matrix, in the file.
struct Piece {
  size_t matrix, first, bytes;
};

std::vector<Piece> pieces_of(std::span<const Matrix> file) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < file.size(); ++i) {
    const size_t bytes = file[i].bytes();
    for (size_t first = 0; first < bytes; first += kPieceBytes) {
      pieces.push_back({i, first, std::min(kPieceBytes, bytes - first)});
    }
  }
  return pieces;
}

}  // namespace

/// Reads pieces into slots, number i into slot i modulo their count, on threads of its own.
class WeightUploader::Reader {
 public:
  /// As many pieces as there are slots may be read at once.
  Reader(std::span<const Matrix> file, std::span<const Piece> pieces, std::byte* slots,
         size_t n_slots, size_t n_threads)
      : file_(file),
        pieces_(pieces),
        slots_(slots),
        n_slots_(n_slots),
        n_free_(n_slots),
        read_(pieces.size()) {
    try {
      for (size_t i = 0; i < n_threads; ++i) threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {  // wait_for() reads what no thread does
    }
  }
  ~Reader() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    freed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  /// One more piece may be read: what was in its slot is copied.
  void free_one() {
    {
      const std::lock_guard lock(mutex_);
      ++n_free_;
    }
    freed_.notify_one();
  }

  std::byte* slot_of(size_t piece) const { return slots_ + piece % n_slots_ * kPieceBytes; }

  /// Until a piece, which may be read, has been.
  void wait_for(size_t piece) {
    std::unique_lock lock(mutex_);
    if (next_ == piece) {  // no thread is free for it
      ++next_;
      lock.unlock();
      read(piece);
      return;
    }
    was_read_.wait(lock, [&] { return read_[piece]; });
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      freed_.wait(lock, [this] { return stop_ || next_ < std::min(n_free_, pieces_.size()); });
      if (stop_) return;
      const size_t piece = next_++;
      lock.unlock();
      read(piece);
      lock.lock();
      read_[piece] = true;
      was_read_.notify_one();
    }
  }

  void read(size_t piece) const {
    const auto [matrix, first, bytes] = pieces_[piece];
    std::memcpy(slot_of(piece), file_[matrix].data + first, bytes);
  }

  const std::span<const Matrix> file_;
  const std::span<const Piece> pieces_;
  std::byte* const slots_;
  const size_t n_slots_;
  std::mutex mutex_;
  std::condition_variable freed_, was_read_;
  size_t n_free_;
  size_t next_ = 0;         ///< piece that nobody has taken
  std::vector<bool> read_;  ///< by the threads
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

void WeightUploader::copy(std::span<const Matrix> file, std::span<std::byte* const> to,
                          const LoadProgress& on_load) {
  const std::vector<Piece> pieces = pieces_of(file);
  const size_t n_threads = std::min<size_t>(
      std::clamp(std::thread::hardware_concurrency(), 1u, kMaxThreads), pieces.size());
  size_t most_in_planes = 0;
  int64_t all = 0;
  for (const Matrix& matrix : file) {
    if (has_planes(matrix.type)) most_in_planes = std::max(most_in_planes, matrix.bytes());
    all += static_cast<int64_t>(matrix.bytes());
  }
  if (as_in_file_.size() < most_in_planes) {
    stream_.synchronize();  // its last contents may be on their way
    as_in_file_ = {};
    as_in_file_ = DeviceBuffer<std::byte>(most_in_planes, "weights as in the file");
  }
  const size_t n_slots = std::min(n_threads + kSlotsBeyondThreads, pieces.size());
  if (copied_.size() < n_slots) {
    stream_.synchronize();
    staging_ = {};
    staging_ = PinnedBuffer<std::byte>(n_slots * kPieceBytes, "weights on their way");
    while (copied_.size() < n_slots) copied_.emplace_back();
  }
  for (const Event& copied : copied_) copied.synchronize();

  size_t n_free = n_slots;
  int64_t done = 0;
  Reader reader(file, pieces, staging_.data(), n_slots, n_threads);
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto [matrix, first, bytes] = pieces[i];
    const Matrix& source = file[matrix];
    std::byte* const raw = has_planes(source.type) ? as_in_file_.data() : to[matrix];
    reader.wait_for(i);
    copy_to_device<std::byte>({reader.slot_of(i), bytes}, raw + first, stream_);
    copied_[i % n_slots].record(stream_);
    if (raw != to[matrix] && first + bytes == source.bytes()) {
      Matrix on_device = source;
      on_device.data = raw;
      arrange_planes(on_device, to[matrix], stream_);
    }
    // Every thread finds a slot; beyond that, those whose copy has ended already.
    for (; n_free < std::min(i + 1 + n_slots, pieces.size()); ++n_free) {
      const Event& copied = copied_[n_free % n_slots];
      if (n_free > i + n_threads && !copied.done()) break;
      copied.synchronize();
      reader.free_one();
    }
    done += static_cast<int64_t>(bytes);
    if (on_load) on_load(done, all);
  }
}

}  // namespace greta
