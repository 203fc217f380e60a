#pragma once

namespace greta {

/// What the 16 bits of a half-precision operand mean.
enum class HalfType { kF16, kBF16 };

}  // namespace greta
