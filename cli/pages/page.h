#pragma once
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cli/pages/html.h"
#include "cli/report/texts.h"
#include "cli/warehouse/verdict.h"

namespace greta {

/// What a page consists of; the rest is the same for all.
struct PageContent {
  std::string title;
  std::string kind;  ///< run, runs, compare, history, gate
  Html body;
  std::string data;  ///< JSON object
};

/// What every page of a kind begins with, by which it is known.
std::string page_start(const std::string& kind, Language language);

/// A page in one file: it loads nothing, and its policy lets no script run but ours (core.js, and
/// map.js or history.js), and no style but page.css. Without the script all of it can be read.
std::string page_of(const PageContent& content, Language language);

/// "FAIL" as a badge, coloured by what it means.
Html verdict_badge(const std::string& verdict);

/// Why a run fails: by values that are known to differ, by values that differ by nobody knows how
/// much, or by rows that have no partner.
enum class FailKind { kNone, kValues, kUnmeasured, kUnpaired };
/// By the verdict that counts, the cause of its first fail, and what the other verdict is.
FailKind fail_kind(std::string_view verdict, std::string_view cause, Gate gate,
                   std::string_view other);
FailKind fail_kind(const Headline& head);

/// The badge of a run: each kind of FAIL has a shape of its own, and words where it is not plain.
Html verdict_badge(const std::string& verdict, FailKind kind, const Wording& words);

/// `table` (its tag, as markup) with a row of columns' names, up to where its rows begin. It
/// scrolls by itself where a screen is narrow; kTableEnd ends it.
Html table_head(Markup table, std::initializer_list<TextId> columns, const Wording& words);
inline constexpr Markup kTableEnd = "</tbody></table></div>\n";

/// A layer as its column is called: what lies after the stack has a name.
std::string layer_name(const std::optional<int64_t>& layer, const Wording& words);

/// "attn_out, layer 3, prompt p0"; that there is no single place, where none is known.
std::string fail_place(const FailPlace& place, const Wording& words);

/// A text that a script shows, by its name there.
struct ScriptWord {
  const char* name;
  TextId id;
};

/// Texts for a script, as a JSON object.
std::string json_of_words(std::span<const ScriptWord> all, const Wording& words);

/// Those of maps (map.js); `untold` is what is said of a cell that not all is told of.
std::string json_of_map_words(const Wording& words, TextId untold);

}  // namespace greta
