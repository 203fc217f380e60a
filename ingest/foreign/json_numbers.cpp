#include "ingest/foreign/json_numbers.h"

namespace greta {

std::string without_bare_nonfinite(std::string_view json) {
  std::string result;
  result.reserve(json.size() + 64);
  for (size_t at = 0; at < json.size();) {
    if (json[at] == '"') {
      size_t end = at + 1;
      while (end < json.size() && json[end] != '"') end += json[end] == '\\' ? 2 : 1;
      end = end < json.size() ? end + 1 : json.size();
      result += json.substr(at, end - at);
      at = end;
      continue;
    }
    std::string_view found;
    for (std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
      if (json.substr(at).starts_with(word)) found = word;
    }
    if (found.empty()) {
      result += json[at++];
    } else {
      result += '"';
      result += found;
      result += '"';
      at += found.size();
    }
  }
  return result;
}

}  // namespace greta
