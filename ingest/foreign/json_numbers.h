#pragma once
#include <string>
#include <string_view>

namespace greta {

/// JSON as Python writes it, made JSON: NaN, Infinity and -Infinity outside of texts become the
/// texts "NaN", "Infinity" and "-Infinity".
std::string without_bare_nonfinite(std::string_view json);

}  // namespace greta
