#pragma once

#include <array>
#include <memory>
#include <string_view>

#include "engine/forward/backend.h"

// Chooses a backend by its name.

namespace greta {

/// Names that make_backend takes, the default last.
inline constexpr std::array<std::string_view, 3> kBackendNames{"cpu", "hip", "auto"};

/// cpu, hip (the GPU), or auto: the GPU where this build and this machine have one, else the CPU.
/// Throws std::invalid_argument for a backend that the build does not have, and what
/// make_hip_backend() throws.
std::unique_ptr<Backend> make_backend(std::string_view name, int n_threads);

}  // namespace greta
