#pragma once
#include <string_view>

namespace greta {

/// A text in both languages; {0}, {1}, ... stand for values that need no translation.
struct ReportText {
  std::string_view id, en, es;
};

}  // namespace greta
