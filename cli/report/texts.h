#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "cli/report/report_text.h"
#include "cli/report/texts_of_pages.h"
#include "cli/report/texts_of_reports.h"

namespace greta {

/// Language of a report; kBoth is English and Spanish side by side.
enum class Language { kEnglish, kSpanish, kBoth };

/// Null when no table has a text of that name.
constexpr const ReportText* find_report_text(std::string_view id) {
  for (const ReportText& text : kTextsOfReports) {
    if (text.id == id) return &text;
  }
  for (const ReportText& text : kTextsOfPages) {
    if (text.id == id) return &text;
  }
  return nullptr;
}

/// Names a text; a name that no table has does not compile.
class TextId {
 public:
  consteval TextId(const char* id) : text_(find_report_text(id)) {
    static_cast<void>(text_->id.size());  // nothing that a null pointer has is a constant
  }
  const ReportText& text() const { return *text_; }

 private:
  const ReportText* text_;
};

using TextValues = std::vector<std::string>;

/// `text` with {0}, {1}, ... replaced by the values; braces in values mean nothing.
std::string fill_text(std::string_view text, const TextValues& values);

/// The texts of one language or of both.
class Wording {
 public:
  constexpr explicit Wording(Language language) : language_(language) {}
  Language language() const { return language_; }

  /// For a heading, label or cell: both languages as "English / Spanish", once when they are equal.
  std::string operator()(TextId id, const TextValues& values = {}) const {
    return line(id.text(), values);
  }
  std::string line(const ReportText& text, const TextValues& values = {}) const;

 private:
  Language language_;
};

/// Those of a terminal, and of what a machine reads.
inline constexpr Wording kEnglishWords(Language::kEnglish);

/// Of an option --lang: en, es or both.
Language language_named(std::string_view name);

}  // namespace greta
