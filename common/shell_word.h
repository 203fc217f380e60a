#pragma once
#include <string>
#include <string_view>

#include "common/utf8.h"

namespace greta {

/// `text` as one word of a shell, in single quotes, for a command that is shown to be copied.
inline std::string shell_word(std::string_view text) {
  std::string word = "'";
  for (const char c : utf8::printable(text)) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

}  // namespace greta
