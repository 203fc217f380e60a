#include "cli/greta_infer/word_list.h"

namespace greta {

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> parts;
  constexpr std::string_view kSeparators = ", \t\n\r";
  for (size_t at = text.find_first_not_of(kSeparators); at != std::string_view::npos;
       at = text.find_first_not_of(kSeparators, at)) {
    const size_t end = std::min(text.find_first_of(kSeparators, at), text.size());
    parts.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return parts;
}

}  // namespace greta
