#pragma once

#include <memory>

#include "engine/forward/backend.h"

namespace greta {

/// The CPU of this machine. n_threads 0: as many as there are cores.
std::unique_ptr<Backend> make_cpu_backend(int n_threads);

}  // namespace greta
