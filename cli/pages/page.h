#pragma once
#include <string>
#include <string_view>

#include "cli/pages/html.h"
#include "cli/report/texts.h"

namespace greta {

/// What a page consists of; the rest is the same for all.
struct PageContent {
  std::string title;
  std::string kind;  ///< run, runs, compare, history, gate
  Html body;
  std::string data;  ///< JSON object
};

/// A page in one file: it loads nothing, and its policy lets no script run but ours (core.js, and
/// map.js or history.js), and no style but page.css. Without the script all of it can be read.
std::string page_of(const PageContent& content, Language language);

/// "FAIL" as a badge, coloured by what it means.
Html verdict_badge(const std::string& verdict);

/// Texts that the script of maps shows, as a JSON object.
std::string json_of_words(const Wording& words);

}  // namespace greta
