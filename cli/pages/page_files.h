#pragma once
#include <string_view>

namespace greta {

/// page.css and the scripts, embedded at build time.
std::string_view page_style();
std::string_view core_script();
std::string_view map_script();
std::string_view history_script();

}  // namespace greta
