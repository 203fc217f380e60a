#pragma once
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace greta {

/// Parses a text that is one JSON value; returns why it is none that can be taken, "" when it is.
/// It nests at most 64 deep, so that it can be walked by recursion, has at most so many values,
/// none of its texts is longer than 1 MiB, and no object names a key twice, of which nlohmann-json
/// would keep one in silence. Messages are printable whatever the bytes are; `value` is null then.
std::string parse_json(std::string_view text, size_t most_values, nlohmann::json& value);

/// A whole file of JSON: the object at its top, or `error` set to why there is none.
nlohmann::json parse_json_document(std::string_view text, std::string& error);

/// The text with every bare word that is a number and not finite in quotes: NaN, -Infinity, inf,
/// 1e400, as Python and C++ write them. With a depth, only inside that many objects and lists.
std::string with_quoted_nonfinite(std::string_view json, int depth = 0);

/// JSON as one line; bytes that are not UTF-8 become U+FFFD.
std::string json_text(const nlohmann::json& value);

}  // namespace greta
