#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace greta {

/// Columns a terminal uses for valid UTF-8.
size_t display_width(std::string_view text);

/// The first characters of `text` that fit into `width` columns, the last one being an ellipsis.
std::string cut_to_width(std::string_view text, size_t width);

/// The text, or where it is wider, as much of its beginning and its end as fits around an ellipsis.
std::string shortened_to_width(std::string_view text, size_t width);

}  // namespace greta
