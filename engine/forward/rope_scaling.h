#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/gguf/architecture.h"
#include "engine/gguf/file.h"

namespace greta {

/// How a file stretches RoPE over more positions than the model was first trained on, read as
/// llama.cpp reads it, defaults included.
struct RopeScaling {
  enum class Type {
    kNone,
    kLinear,  ///< every frequency over `factor`
    kYarn     ///< slow planes only, fast ones stay (Peng et al. 2023)
  };
  Type type = Type::kNone;
  double factor = 1;
  double attn_factor = 1;  ///< of cosines and sines, whatever the type
  // Of YaRN: a plane that turns beta_fast times or more over the original context stays as it is,
  // one that turns beta_slow times or less is stretched, and in between goes a ramp.
  double beta_fast = 32, beta_slow = 1;
  int64_t original_context = 0;

  /// What cosines and sines are multiplied with: YaRN's 1 + ln(factor)/10 and attn_factor.
  double magnitude() const;
  std::string text() const;  ///< "yarn, 4 times 32768 positions"; "" for none
};

/// context: of the model. Throws GgufError for another type, and for numbers that make no sense.
RopeScaling read_rope_scaling(const GgufFile& file, const Architecture& architecture,
                              int64_t context);

/// Angle per position of each plane: theta^(−2i/rope_dim), scaled, over factors where there are
/// any. [rope_dim / 2]
std::vector<double> rope_frequencies(double theta, int64_t rope_dim, const RopeScaling& scaling,
                                     std::span<const float> factors);

}  // namespace greta
