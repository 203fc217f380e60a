#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "kernels/gpu/device.h"

namespace greta {

/// Device memory that operations use among themselves and that grows when one needs more.
template <class T>
class Scratch {
 public:
  /// make_room: called before smaller memory is given back; nothing may use it afterwards.
  Scratch(const char* purpose, std::function<void()> make_room)
      : purpose_(purpose), make_room_(std::move(make_room)) {}

  /// At least n values; those of before are lost when it grew.
  T* get(size_t n) {
    if (n > memory_.size()) {
      make_room_();
      memory_ = {};
      memory_ = DeviceBuffer<T>(n, purpose_);
    }
    return memory_.data();
  }
  size_t size() const { return memory_.size(); }

 private:
  const char* purpose_;
  std::function<void()> make_room_;
  DeviceBuffer<T> memory_;
};

}  // namespace greta
