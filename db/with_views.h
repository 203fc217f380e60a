#pragma once
#include <string>
#include <string_view>

namespace greta {

/// A statement of this program, with the views that it reads written out before it (WITH view AS
/// ...). It says the same. SQLite asks a view's columns of all that is below it, and so for each of
/// ten views on top of each other: that takes a third to a half of what there is to prepare.
std::string with_views(std::string_view sql);

}  // namespace greta
