#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kernels/rows.h"

namespace greta {

/// What sets the blocks of an architecture apart; all else they share.
struct Architecture {
  std::string_view name;  ///< general.architecture, and the beginning of its keys
  RopePairing pairing = RopePairing::kInterleaved;
  bool has_qkv_bias = false;  ///< q, k and v have a bias always, not only where a file brings one
  bool has_qk_norm = false;   ///< heads of q and of k are normed before RoPE, each by itself

  /// llama.block_count
  std::string key(std::string_view rest) const {
    return std::string(name) + "." + std::string(rest);
  }
};

/// llama (Mistral's files call themselves so), qwen2, qwen3.
std::span<const Architecture> architectures();
/// "llama, qwen2, qwen3"
std::string architecture_names();
const Architecture* find_architecture(std::string_view name);  ///< nullptr when there is none

}  // namespace greta
