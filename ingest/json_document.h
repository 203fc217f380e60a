#pragma once
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace greta {

/// Watches a parse by nlohmann::json, which keeps the last of two equal keys in silence, for an
/// object that has one. Call it from the parser's callback.
class RepeatedKeys {
 public:
  void watch(nlohmann::json::parse_event_t event, const nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start) open_.emplace_back();
    if (event == Event::object_end && !open_.empty()) open_.pop_back();
    if (event != Event::key || open_.empty()) return;
    const auto& key = parsed.get_ref<const std::string&>();
    if (!open_.back().insert(key).second && first_.empty()) first_ = '"' + key + '"';
  }
  /// The first key that was there twice, in quotes; "" when none was.
  const std::string& first() const { return first_; }

 private:
  std::vector<std::set<std::string>> open_;  // keys of the objects around
  std::string first_;
};

/// A whole file of JSON: the object at its top, or `error` set to why and at which byte. Nesting
/// deeper than 64 is an error, so that what comes back can be walked by recursion. Messages are
/// printable whatever the bytes are.
nlohmann::json parse_json_document(std::string_view text, std::string& error);

/// JSON as one line; bytes that are not UTF-8 become U+FFFD.
std::string json_text(const nlohmann::json& value);

}  // namespace greta
