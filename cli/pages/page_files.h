#pragma once
#include <string_view>

namespace greta {

/// page.css and page.js, embedded at build time.
std::string_view page_style();
std::string_view page_script();

}  // namespace greta
