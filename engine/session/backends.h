#pragma once

#include <memory>
#include <string_view>

#include "engine/forward/backend.h"

namespace greta {

/// cpu, hip (the GPU), or auto: the GPU where this build and this machine have one, else the CPU.
/// Throws std::invalid_argument for a backend that the build does not have, and what
/// make_hip_backend() throws.
std::unique_ptr<Backend> make_backend(std::string_view name, int n_threads);

}  // namespace greta
