#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "kernels/device_error.h"

// Owners of what a GPU gives: memory, streams, events, graphs.
//
// No header of a GPU's toolkit is included here, nor by the launchers' headers: code that only
// calls kernels is compiled by any compiler. Objects are used by one thread at a time, and die
// before the program's static objects do.

namespace greta {

/// The device in use.
struct DeviceInfo {
  std::string name;          ///< as the driver calls it
  std::string architecture;  ///< gfx942, sm_90
  size_t memory_bytes = 0;
  size_t shared_bytes = 0;  ///< that a block can have
  int n_processors = 0;     ///< compute units, multiprocessors
  int wave_lanes = 0;
};

/// Devices that can be used; 0 without a driver. Never throws.
int device_count();

/// Makes a device the calling thread's. Throws DeviceError.
void use_device(int index);
DeviceInfo device_info();

struct DeviceMemory {
  size_t free_bytes, total_bytes;
};
DeviceMemory device_memory();

class Event;

/// A queue of work, done in order. What is queued may still be under way when a call returns.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(Stream&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)),
        launches_(other.launches_),
        last_kernel_(other.last_kernel_) {}
  Stream& operator=(Stream&&) = delete;

  /// Waits until all is done. Throws DeviceError when a kernel failed, with the name of the last
  /// one launched: a kernel runs after its launch has returned, so it may be an earlier one.
  void synchronize();

  /// Work queued from now on starts after the event.
  void wait(const Event& event);

  void* handle() const { return handle_; }        ///< hipStream_t, cudaStream_t
  int64_t launches() const { return launches_; }  ///< kernels so far, recorded ones included

  /// Called by every launch. kernel lives for ever.
  void count_launch(const char* kernel) {
    ++launches_;
    last_kernel_ = kernel;
  }

 private:
  void* handle_ = nullptr;
  int64_t launches_ = 0;
  const char* last_kernel_ = nullptr;
};

/// A point in a stream's work.
class Event {
 public:
  Event();
  ~Event();
  Event(Event&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Event& operator=(Event&&) = delete;

  void record(Stream& stream);
  void synchronize() const;  ///< waits; at once when never recorded
  bool done() const;         ///< true when never recorded
  void* handle() const { return handle_; }

 private:
  void* handle_ = nullptr;
};

/// Work recorded once and replayed as a whole: one call instead of hundreds. Every argument is
/// recorded by value, pointers included; what changes from replay to replay lies in memory.
class Graph {
 public:
  /// Records what `work` queues on stream, without doing it. `work` must neither wait nor allocate:
  /// DeviceError. An exception of `work` passes through, and the stream is as before.
  static Graph capture(Stream& stream, const std::function<void()>& work);
  ~Graph();
  Graph(Graph&& other) noexcept
      : graph_(std::exchange(other.graph_, nullptr)),
        executable_(std::exchange(other.executable_, nullptr)),
        last_kernel_(other.last_kernel_) {}
  Graph& operator=(Graph&& other) noexcept {
    std::swap(graph_, other.graph_);
    std::swap(executable_, other.executable_);
    std::swap(last_kernel_, other.last_kernel_);
    return *this;
  }

  /// Queues all of it.
  void launch(Stream& stream);

 private:
  friend class Recording;
  Graph() = default;
  void* graph_ = nullptr;
  void* executable_ = nullptr;
  const char* last_kernel_ = nullptr;
};

/// Graph::capture() for work that no one function queues: all that is queued on the stream during
/// its life is recorded.
class Recording {
 public:
  explicit Recording(Stream& stream);
  /// What was recorded and not finished is dropped; the stream is as before.
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /// Ends it. Once.
  Graph finish();

 private:
  Stream& stream_;
  int64_t launches_before_;
  bool open_ = true;
};

namespace device_detail {

void* allocate(size_t n, size_t size, std::string_view purpose);
void release(void* data) noexcept;
void* allocate_pinned(size_t n, size_t size, std::string_view purpose);
void release_pinned(void* data) noexcept;
void copy_to_device(void* to, const void* from, size_t bytes, Stream& stream);
void copy_to_host(void* to, const void* from, size_t bytes, Stream& stream);
void copy_on_device(void* to, const void* from, size_t bytes, Stream& stream);
void set_bytes(void* data, int value, size_t bytes, Stream& stream);

/// n values of T that die with their owner.
template <class T, void* (*kAllocate)(size_t, size_t, std::string_view),
          void (*kRelease)(void*) noexcept>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() = default;
  /// Contents are undefined. Throws DeviceError, which names the purpose.
  explicit Buffer(size_t n, std::string_view purpose = "a buffer")
      : data_(static_cast<T*>(kAllocate(n, sizeof(T), purpose))), n_(n) {}
  ~Buffer() { kRelease(data_); }
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), n_(std::exchange(other.n_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(n_, other.n_);
    return *this;
  }

  T* data() const { return data_; }
  size_t size() const { return n_; }

 private:
  T* data_ = nullptr;
  size_t n_ = 0;
};

}  // namespace device_detail

/// Memory of the device. Freeing waits for the device.
template <class T>
using DeviceBuffer = device_detail::Buffer<T, device_detail::allocate, device_detail::release>;

/// Host memory that copies from and to the device go on beside other work. It must not change
/// before such a copy is done.
template <class T>
class PinnedBuffer : public device_detail::Buffer<T, device_detail::allocate_pinned,
                                                  device_detail::release_pinned> {
 public:
  using device_detail::Buffer<T, device_detail::allocate_pinned,
                              device_detail::release_pinned>::Buffer;
  T& operator[](size_t i) const { return this->data()[i]; }
  std::span<T> span() const { return {this->data(), this->size()}; }
};

/// Copies, queued. Host memory that is not pinned is read or written before the call returns.
template <class T>
void copy_to_device(std::span<const T> from, std::type_identity_t<T>* to, Stream& stream) {
  device_detail::copy_to_device(to, from.data(), from.size_bytes(), stream);
}
template <class T>
void copy_to_host(const std::type_identity_t<T>* from, std::span<T> to, Stream& stream) {
  device_detail::copy_to_host(to.data(), from, to.size_bytes(), stream);
}
template <class T>
void copy_on_device(const T* from, size_t n, T* to, Stream& stream) {
  device_detail::copy_on_device(to, from, n * sizeof(T), stream);
}

/// Sets every byte, queued.
template <class T>
void set_bytes(T* data, size_t n, int value, Stream& stream) {
  device_detail::set_bytes(data, value, n * sizeof(T), stream);
}

/// Meaning of the 16 bits of a half-precision operand.
enum class HalfType { kF16, kBF16 };

}  // namespace greta
