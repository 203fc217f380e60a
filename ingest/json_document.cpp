#include "ingest/json_document.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "common/utf8.h"

namespace greta {
namespace {

using nlohmann::json;

constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxMessage = 200;
constexpr size_t kMaxValues = 100'000, kMaxString = 1u << 20;

// Offset of the first bracket that nests too deep. Brackets in strings do not count.
std::optional<size_t> too_deep_at(std::string_view text) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxDepth) return i;
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return std::nullopt;
}

// True if there are more values, or longer texts, than a document has. Marks outside strings are as
// many as values, or more.
bool is_oversized(std::string_view text) {
  size_t marks = 0, string_at = 0, longest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && in_string) ++i;
    if (c == '"') {
      if (in_string) longest = std::max(longest, i - string_at);
      in_string = !in_string;
      string_at = i;
    }
    marks += !in_string && (c == ',' || c == '{' || c == '[');
  }
  return marks > kMaxValues || longest > kMaxString;
}

// The beginning of a message, which quotes the bytes that it is about.
std::string shown(std::string_view s) {
  return utf8::printable(s.substr(0, kMaxMessage)) + (s.size() > kMaxMessage ? "..." : "");
}

// nlohmann prefixes its messages with an identifier in brackets and the position.
std::string parse_message(const json::parse_error& error) {
  std::string_view what = error.what();
  const size_t detail = what.find(": ");
  if (detail != what.npos) what.remove_prefix(detail + 2);
  return shown(what);
}

std::string at_byte(size_t offset) { return " at byte " + std::to_string(offset); }

}  // namespace

json parse_json_document(std::string_view text, std::string& error) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos) {
    error = "no JSON in " + std::to_string(text.size()) + " bytes";
    return {};
  }
  if (const auto offset = too_deep_at(text)) {
    error = "JSON nested deeper than " + std::to_string(kMaxDepth) + at_byte(*offset);
    return {};
  }
  if (is_oversized(text)) {
    error = "JSON of more than " + std::to_string(kMaxValues) + " values, or with one of 1 MiB";
    return {};
  }
  try {
    RepeatedKeys repeated;
    json document = json::parse(text, [&](int, json::parse_event_t event, json& parsed) {
      repeated.watch(event, parsed);
      return true;
    });
    if (!repeated.first().empty()) {
      error = shown(repeated.first()) + " is written twice";
      return {};
    }
    if (!document.is_object()) {
      error =
          std::string("top level is ") + document.type_name() + ", not an object," + at_byte(first);
    }
    return document;
  } catch (const json::parse_error& e) {
    // The parser counts the byte it stopped at from 1.
    error = "not valid JSON" + at_byte(e.byte > 0 ? e.byte - 1 : 0) + ": " + parse_message(e);
  } catch (const json::exception& e) {
    error = "not valid JSON: " + shown(e.what());
  }
  return {};
}

std::string json_text(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace greta
