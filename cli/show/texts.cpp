#include "cli/show/texts.h"

namespace greta {

std::string Line::text() const {
  std::string text;
  for (const Span& span : spans_) text += span.text;
  return text;
}

Line fill_text(std::string_view text, const TextValues& values) {
  Line filled;
  std::string plain;
  Span::Kind kind = Span::Kind::kPlain;
  const auto flush = [&] { filled += Span{kind, std::exchange(plain, "")}; };
  const auto toggle = [&](Span::Kind to) {
    flush();
    kind = kind == to ? Span::Kind::kPlain : to;
  };
  for (size_t i = 0; i < text.size(); i++) {
    const bool slot = text[i] == '{' && i + 2 < text.size() && text[i + 2] == '}';
    const size_t index = slot ? static_cast<size_t>(text[i + 1] - '0') : 0;
    if (slot && index < values.size()) {
      i += 2;
      if (kind == Span::Kind::kPlain) {
        flush();
        filled += values[index];
      } else {
        plain += values[index].text();
      }
    } else if (text[i] == '`') {
      toggle(Span::Kind::kCode);
    } else if (text.substr(i, 2) == "**") {
      toggle(Span::Kind::kStrong);
      ++i;
    } else {
      plain += text[i];
    }
  }
  flush();
  return filled;
}

std::vector<Line> Wording::each(const Sentence& sentence) const {
  std::vector<Line> lines;
  if (language_ != Language::kSpanish) lines.push_back(fill_text(sentence.of->en, sentence.values));
  if (language_ != Language::kEnglish) lines.push_back(fill_text(sentence.of->es, sentence.values));
  return lines;
}

Line Wording::line(const Sentence& sentence) const {
  return pick(fill_text(sentence.of->en, sentence.values),
              fill_text(sentence.of->es, sentence.values));
}

Line Wording::pick(const Line& english, const Line& spanish) const {
  if (language_ == Language::kEnglish) return english;
  if (language_ == Language::kSpanish || english.text() == spanish.text()) return spanish;
  return english + " / " + spanish;
}

}  // namespace greta
