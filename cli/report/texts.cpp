#include "cli/report/texts.h"

#include <algorithm>

namespace greta {

const ReportText* find_report_text(std::string_view id) {
  const ReportText* found = std::find_if(std::begin(kReportTexts), std::end(kReportTexts),
                                         [id](const ReportText& text) { return text.id == id; });
  return found == std::end(kReportTexts) ? nullptr : found;
}

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

std::string Wording::line(const ReportText& text, const TextValues& values) const {
  std::string en = fill_text(text.en, values), es = fill_text(text.es, values);
  if (language_ == Language::kEnglish) return en;
  if (language_ == Language::kSpanish) return es;
  return en == es ? en : en + " / " + es;
}

}  // namespace greta
