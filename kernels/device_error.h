#pragma once

#include <stdexcept>

namespace greta {

/// A call to a device or a kernel that failed. what() names it, the sizes asked for and, for
/// memory, what is free.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace greta
