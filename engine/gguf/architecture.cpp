#include "engine/gguf/architecture.h"

#include <algorithm>
#include <array>

namespace greta {
namespace {

constexpr std::array<Architecture, 3> kArchitectures{
    {{.name = "llama"},
     {.name = "qwen2", .pairing = RopePairing::kHalves, .has_qkv_bias = true},
     {.name = "qwen3", .pairing = RopePairing::kHalves, .has_qk_norm = true}}};

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }

std::string architecture_names() {
  std::string names;
  for (const Architecture& architecture : kArchitectures) {
    names.append(names.empty() ? "" : ", ").append(architecture.name);
  }
  return names;
}

const Architecture* find_architecture(std::string_view name) {
  const auto found = std::ranges::find(kArchitectures, name, &Architecture::name);
  return found == kArchitectures.end() ? nullptr : &*found;
}

}  // namespace greta
