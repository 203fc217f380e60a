#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace greta {

/// A whole file of JSON: the object at its top, or `error` set to why and at which byte. Nesting
/// deeper than 64 is an error, so that what comes back can be walked by recursion. Messages are
/// printable whatever the bytes are.
nlohmann::json parse_json_document(std::string_view text, std::string& error);

/// JSON as one line; bytes that are not UTF-8 become U+FFFD.
std::string json_text(const nlohmann::json& value);

}  // namespace greta
