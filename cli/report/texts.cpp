#include "cli/report/texts.h"

namespace greta {

std::string fill_text(std::string_view text, const TextValues& values) {
  std::string filled;
  for (size_t i = 0; i < text.size(); i++) {
    bool slot = text[i] == '{' && i + 2 < text.size() && text[i + 2] == '}';
    size_t index = slot ? static_cast<size_t>(text[i + 1] - '0') : 0;
    if (!slot || index >= values.size()) {
      filled += text[i];
      continue;
    }
    filled += values[index];
    i += 2;
  }
  return filled;
}

Language language_named(std::string_view name) {
  return name == "es" ? Language::kSpanish : name == "both" ? Language::kBoth : Language::kEnglish;
}

std::string Wording::line(const ReportText& text, const TextValues& values) const {
  std::string en = fill_text(text.en, values), es = fill_text(text.es, values);
  if (language_ == Language::kEnglish) return en;
  if (language_ == Language::kSpanish) return es;
  return en == es ? en : en + " / " + es;
}

}  // namespace greta
