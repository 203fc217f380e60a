#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace greta {

/// JSON as Python writes it: NaN, Infinity and -Infinity outside of texts are taken as the texts
/// "NaN", "Infinity" and "-Infinity". Discarded when it is no JSON. Throws ForeignError for what
/// nests deeper than 64 or has more than half a million values, so that memory stays bounded, and
/// for an object that names a key twice.
nlohmann::json parse_python_json(std::string_view text);

/// Why such a text is no JSON, behind what says so: " (parse error at line 1, column 7: ...)"; ""
/// of a text that is some.
std::string reason_of_damage(std::string_view text);

}  // namespace greta
