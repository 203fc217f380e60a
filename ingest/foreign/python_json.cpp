#include "ingest/foreign/python_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "common/utf8.h"
#include "ingest/foreign/bytes.h"
#include "ingest/json_document.h"

namespace greta {
namespace {

constexpr int kMaxJsonDepth = 64;
constexpr size_t kMaxJsonItems = 500'000;

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

}  // namespace

nlohmann::json parse_python_json(std::string_view text) {
  int depth = 0;
  size_t items = 0;
  RepeatedKeys repeated;
  // What is refused here is not kept, but read on.
  const auto is_kept = [&](int now, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    repeated.watch(event, parsed);
    depth = std::max(depth, now);
    return ++items <= kMaxJsonItems && depth <= kMaxJsonDepth;
  };
  nlohmann::json json =
      nlohmann::json::parse(without_bare_nonfinite(text), is_kept, /*allow_exceptions=*/false);
  if (depth > kMaxJsonDepth) throw ForeignError("its JSON nests deeper than 64");
  if (items > kMaxJsonItems) throw ForeignError("its JSON has more than half a million values");
  if (!repeated.first().empty()) {
    throw ForeignError("an object of its JSON names " +
                       utf8::printable(repeated.first().substr(0, 200)) +
                       " twice, and nothing says which one is meant");
  }
  return json;
}

std::string reason_of_damage(std::string_view text) {
  constexpr size_t kMaxShown = 300;
  try {
    [[maybe_unused]] const auto nothing = nlohmann::json::parse(
        without_bare_nonfinite(text), [](int, auto, const auto&) { return false; });
  } catch (const nlohmann::json::exception& error) {
    std::string_view said = error.what();
    said.remove_prefix(std::min(said.size(), said.find("] ") + 2));  // [json.exception.…]
    return " (" + utf8::printable(said.substr(0, kMaxShown)) + ")";
  }
  return "";
}

}  // namespace greta
