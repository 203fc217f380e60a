#pragma once
#include <initializer_list>
#include <string>
#include <string_view>

#include "cli/show/block.h"

namespace greta {

/// The parts of a page that differ from those of others.
struct PageContent {
  std::string title;
  std::string kind;  ///< run, runs, compare, history, gate
  Blocks body;
  std::string data;  ///< JSON object
};

/// The beginning of every page of a kind, by which it is known.
std::string page_start(const std::string& kind, Language language);

/// A page in one file: it loads nothing, and its policy lets no script run but ours (core.js, and
/// map.js or history.js), and no style but page.css. Without the script all of it can be read.
std::string page_of(const PageContent& content, Language language);

/// Texts for a script by their names, as a JSON object.
std::string json_of_words(std::initializer_list<TextId> all, const Wording& words);

// page.css and the scripts, embedded at build time.
std::string_view page_style();
std::string_view core_script();
std::string_view map_script();
std::string_view history_script();

}  // namespace greta
