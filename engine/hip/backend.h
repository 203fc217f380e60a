#pragma once

#include <memory>

#include "engine/forward/backend.h"

// The GPU backend.

namespace greta {

/// The GPU of this machine; nullptr when this build has no kernels for one. Throws DeviceError,
/// which is a std::runtime_error, when there is no usable device.
std::unique_ptr<Backend> make_hip_backend();

/// GPUs that make_hip_backend() can use: 0 when this build has no kernels, or there is no driver.
int gpu_count();

}  // namespace greta
