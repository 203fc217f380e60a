#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ingest/table.h"

/// Markup of HTML in a text: pure functions of any bytes, linear in them.
namespace greta {

/// Every table of <tr>, <td> and <th>, whatever is around them, in order; its first row is the
/// header. Cells have no markup, and the character of each entity that stands for one of ASCII. A
/// table in a cell ends the one around it.
std::vector<Table> read_html_tables(std::string_view text);

/// The text with a '|' for each tag.
std::string with_bars_for_tags(std::string_view text);

}  // namespace greta
