#include "common/json_document.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "common/utf8.h"

namespace greta {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 64;
constexpr size_t kMaxMessage = 200;
constexpr size_t kMaxValues = 100'000, kMaxString = 1u << 20;

struct Refused {
  std::string why;
};

/// Where a text ends that begins behind a quote at `at`: its closing quote, or the end of all.
size_t end_of_text(std::string_view text, size_t at) {
  for (++at; at < text.size() && text[at] != '"';) at += text[at] == '\\' ? 2 : 1;
  return std::min(at, text.size());
}

/// True if a text is longer than one may be. The parser would hold it several times over.
bool has_long_text(std::string_view text) {
  for (size_t at = text.find('"'); at < text.size(); at = text.find('"', at + 1)) {
    const size_t begin = at;
    at = end_of_text(text, at);
    if (at - begin > kMaxString + 1) return true;
  }
  return false;
}

/// Called by the parser for each value.
class Limits {
 public:
  explicit Limits(size_t most_values) : left_(most_values), most_(most_values) {}

  bool operator()(int depth, json::parse_event_t event, const json& parsed) {
    using Event = json::parse_event_t;
    if (depth > kMaxDepth) throw Refused{"JSON nested deeper than " + std::to_string(kMaxDepth)};
    const bool begins_value =
        event == Event::value || event == Event::object_start || event == Event::array_start;
    if (begins_value && left_-- == 0) {
      throw Refused{"JSON of more than " + std::to_string(most_) + " values"};
    }
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (!parsed.is_string() || (event != Event::key && event != Event::value)) return true;
    const auto& text = parsed.get_ref<const std::string&>();
    if (event == Event::key && !keys_.back().insert(text).second) {
      throw Refused{'"' + utf8::printable(text.substr(0, kMaxMessage)) + "\" is written twice"};
    }
    return true;
  }

 private:
  size_t left_, most_;
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
};

// nlohmann prefixes its messages with an identifier in brackets and the position, and quotes the
// bytes that they are about.
std::string detail_of(const json::exception& error) {
  std::string_view what = error.what();
  const size_t detail = what.find(": ");
  if (detail != what.npos) what.remove_prefix(detail + 2);
  return ": " + utf8::printable(what.substr(0, kMaxMessage)) +
         (what.size() > kMaxMessage ? "..." : "");
}

bool is_nonfinite(std::string_view word) {
  double number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return end == word.data() + word.size() && !word.empty() &&
         (error == std::errc::result_out_of_range || !std::isfinite(number));
}

}  // namespace

std::string parse_json(std::string_view text, size_t most_values, json& value) {
  value = nullptr;
  if (has_long_text(text)) return "JSON with a text of more than 1 MiB";
  try {
    value = json::parse(text, Limits(most_values));
    return "";
  } catch (const Refused& refused) {
    return refused.why;
  } catch (const json::parse_error& error) {  // it counts the byte it stopped at from 1
    return "not valid JSON at byte " + std::to_string(error.byte > 0 ? error.byte - 1 : 0) +
           detail_of(error);
  } catch (const json::exception& error) {
    return "not valid JSON" + detail_of(error);
  }
}

json parse_json_document(std::string_view text, std::string& error) {
  if (text.find_first_not_of(" \t\r\n") == text.npos) {
    error = "no JSON in " + std::to_string(text.size()) + " bytes";
    return {};
  }
  json document;
  error = parse_json(text, kMaxValues, document);
  if (error.empty() && !document.is_object()) {
    error = std::string("top level is ") + document.type_name() + ", not an object";
  }
  return document;
}

std::string with_quoted_nonfinite(std::string_view json, int depth) {
  std::string result;
  result.reserve(json.size() + 64);
  for (size_t at = 0; at < json.size();) {
    size_t end = std::min(json.find_first_of("\"{}[]:, \t\r\n", at), json.size());
    const std::string_view word = json.substr(at, end - at);
    result += depth <= 0 && is_nonfinite(word) ? '"' + std::string(word) + '"' : word;
    if (end == json.size()) break;
    at = end++;
    depth += json[at] == '}' || json[at] == ']' ? 1 : 0;
    depth -= json[at] == '{' || json[at] == '[' ? 1 : 0;
    if (json[at] == '"') end = std::min(end_of_text(json, at) + 1, json.size());
    result += json.substr(at, end - at);
    at = end;
  }
  return result;
}

std::string json_text(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace greta
