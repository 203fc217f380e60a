#pragma once

#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels/matrix.h"

namespace greta {

/// Calls f with std::integral_constant<WeightType, type>: the one switch by which launchers choose
/// among the kernels of a template.
template <class F>
void with_weight_type(WeightType type, F f) {
  switch (type) {
    case WeightType::kF32:
      return f(std::integral_constant<WeightType, WeightType::kF32>{});
    case WeightType::kF16:
      return f(std::integral_constant<WeightType, WeightType::kF16>{});
    case WeightType::kQ4_0:
      return f(std::integral_constant<WeightType, WeightType::kQ4_0>{});
    case WeightType::kQ4_1:
      return f(std::integral_constant<WeightType, WeightType::kQ4_1>{});
    case WeightType::kQ5_0:
      return f(std::integral_constant<WeightType, WeightType::kQ5_0>{});
    case WeightType::kQ5_1:
      return f(std::integral_constant<WeightType, WeightType::kQ5_1>{});
    case WeightType::kIQ4_NL:
      return f(std::integral_constant<WeightType, WeightType::kIQ4_NL>{});
    case WeightType::kQ8_0:
      return f(std::integral_constant<WeightType, WeightType::kQ8_0>{});
    case WeightType::kQ2_K:
      return f(std::integral_constant<WeightType, WeightType::kQ2_K>{});
    case WeightType::kQ3_K:
      return f(std::integral_constant<WeightType, WeightType::kQ3_K>{});
    case WeightType::kQ4_K:
      return f(std::integral_constant<WeightType, WeightType::kQ4_K>{});
    case WeightType::kQ5_K:
      return f(std::integral_constant<WeightType, WeightType::kQ5_K>{});
    case WeightType::kQ6_K:
      return f(std::integral_constant<WeightType, WeightType::kQ6_K>{});
    case WeightType::kBF16:
      return f(std::integral_constant<WeightType, WeightType::kBF16>{});
  }
  throw std::invalid_argument("no kernel for weight type " +
                              std::to_string(static_cast<uint32_t>(type)));
}

}  // namespace greta
