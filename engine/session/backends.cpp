#include <stdexcept>
#include <string>
#include <utility>

#include "engine/forward/backend.h"
#include "engine/hip/backend.h"
#include "engine/session/session.h"

namespace greta {

std::unique_ptr<Backend> make_backend(std::string_view name, int n_threads, std::string_view isa) {
  if (name == "cpu") return make_cpu_backend(n_threads, isa_of(isa));
  if (name == "auto") {
    std::unique_ptr<Backend> gpu = gpu_count() > 0 ? make_hip_backend() : nullptr;
    return gpu && isa.empty() ? std::move(gpu) : make_cpu_backend(n_threads, isa_of(isa));
  }
  if (name != "hip") {
    std::string known;
    for (const std::string_view one : kBackendNames) {
      known.append(known.empty() ? "" : ", ").append(one);
    }
    throw std::invalid_argument("there is no backend '" + std::string(name) + "'; there are " +
                                known);
  }
  if (!isa.empty())
    throw std::invalid_argument(
        "a GPU has no instruction set to choose: --isa is of --backend cpu");
  std::unique_ptr<Backend> gpu = make_hip_backend();
  if (gpu) return gpu;
  throw std::invalid_argument(
      "this build has no GPU kernels: configure it with -DGRETA_GPU=hipcc, or nvcc; --backend cpu "
      "needs none");
}

}  // namespace greta
