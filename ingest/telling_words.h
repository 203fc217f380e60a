#pragma once
#include <string_view>

namespace greta::said {

/// False of a line that has none of the words without which no line claims a failure, as hardly any
/// line has. True also of one that may spell them otherwise, with accents or what is not shown.
/// Linear in the line.
bool has_telling_word(std::string_view line);

}  // namespace greta::said
