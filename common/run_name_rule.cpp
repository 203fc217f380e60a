#include "common/run_name_rule.h"

#include <algorithm>

namespace greta {
namespace {

constexpr std::string_view kNameCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";

}  // namespace

bool is_name_part(std::string_view text) {
  return !text.empty() && text.front() != '.' &&
         text.find_first_not_of(kNameCharacters) == std::string_view::npos;
}

bool is_run_name(std::string_view text) {
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('/', begin), text.size());
    if (!is_name_part(text.substr(begin, end - begin))) return false;
    begin = end + 1;
  }
  return true;
}

}  // namespace greta
