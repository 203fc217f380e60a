#pragma once
#include <string>
#include <string_view>

#include "cli/output/output.h"

namespace greta {

/// Appends `text` as a JSON string; invalid UTF-8 becomes U+FFFD.
void append_json_string(std::string& to, std::string_view text);

/// Appends a value: integers exact, reals in the fewest digits that read back the same (infinity as
/// 1e999, which readers take for it), blobs as a string of hex digits.
void append_json(std::string& to, const Cell& cell);

/// A JSON value built member by member, in order. The caller nests them with raw().
class JsonObject {
 public:
  JsonObject& add(std::string_view key, const Cell& value);
  JsonObject& add_bool(std::string_view key, bool value);
  JsonObject& raw(std::string_view key, std::string_view json);
  std::string str() const { return "{" + members_ + "}"; }

 private:
  void key(std::string_view name);
  std::string members_;
};

/// [a,b,c] of JSON values.
std::string json_array(const std::vector<std::string>& values);

}  // namespace greta
