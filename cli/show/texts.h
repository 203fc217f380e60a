#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/show/report_texts.h"

namespace greta {

/// A piece of a line that looks one way. Texts are as they are: a printer escapes them.
struct Span {
  enum class Kind : uint8_t { kPlain, kStrong, kCode, kSoft, kVerdict, kSquare };
  Kind kind = Kind::kPlain;
  std::string text;
  std::string look = {};  ///< of a verdict or a square: its classes in page.css
  std::string link = {};  ///< an address on a page; "" none
};

/// A text in one line, with what is code or strong in it.
class Line {
 public:
  Line() = default;
  Line(std::string text) : Line(Span{Span::Kind::kPlain, std::move(text)}) {}
  Line(std::string_view text) : Line(std::string(text)) {}
  Line(const char* text) : Line(std::string(text)) {}
  Line(Span span) {
    if (!span.text.empty() || !span.look.empty()) spans_.push_back(std::move(span));
  }

  Line& operator+=(const Line& other) {
    spans_.insert(spans_.end(), other.spans_.begin(), other.spans_.end());
    return *this;
  }
  friend Line operator+(Line a, const Line& b) { return a += b; }

  const std::vector<Span>& spans() const { return spans_; }
  bool empty() const { return spans_.empty(); }
  std::string text() const;  ///< without marks

 private:
  std::vector<Span> spans_;
};

inline Line strong(std::string text) { return Span{Span::Kind::kStrong, std::move(text)}; }
inline Line code(std::string text) { return Span{Span::Kind::kCode, std::move(text)}; }
inline Line soft(std::string text) { return Span{Span::Kind::kSoft, std::move(text)}; }
/// A verdict, or another word that says good or bad, and its classes in page.css.
inline Line verdict_word(std::string text, std::string look) {
  return Span{Span::Kind::kVerdict, std::move(text), std::move(look)};
}
/// A square of a map within a text.
inline Line square_of(std::string look) { return Span{Span::Kind::kSquare, "", std::move(look)}; }
/// `text` as a link; plain where `address` is "".
inline Line linked(std::string text, std::string address) {
  return Span{Span::Kind::kPlain, std::move(text), "", std::move(address)};
}

/// Language of a report; kBoth is English and Spanish side by side.
enum class Language { kEnglish, kSpanish, kBoth };

/// Null when there is no text of that name.
constexpr const ReportText* find_report_text(std::string_view id) {
  for (const ReportText& text : kTexts) {
    if (text.id == id) return &text;
  }
  return nullptr;
}

/// Names a text; a name that no text has does not compile.
class TextId {
 public:
  consteval TextId(const char* id) : text_(find_report_text(id)) {
    static_cast<void>(text_->id.size());  // nothing that a null pointer has is a constant
  }
  const ReportText& text() const { return *text_; }

 private:
  const ReportText* text_;
};

using TextValues = std::vector<Line>;

/// `text` with {0}, {1}, ... replaced by the values. In `text`, **...** is strong and `...` code;
/// marks in values mean nothing.
Line fill_text(std::string_view text, const TextValues& values);

/// A text with its values, to be said in a language.
struct Sentence {
  const ReportText* of;
  TextValues values;

  Sentence(TextId id, TextValues v = {}) : of(&id.text()), values(std::move(v)) {}
  Sentence(const ReportText& t, TextValues v = {}) : of(&t), values(std::move(v)) {}
};

/// The texts of one language or of both.
class Wording {
 public:
  constexpr explicit Wording(Language language) : language_(language) {}
  Language language() const { return language_; }

  /// For a heading, label or cell: both languages as "English / Spanish", once when they are equal.
  Line line(const Sentence& sentence) const;
  Line line(TextId id, TextValues values = {}) const { return line({id, std::move(values)}); }
  /// The same without marks.
  std::string operator()(TextId id, TextValues values = {}) const {
    return line(id, std::move(values)).text();
  }
  /// One text or both, of texts that are known in both languages.
  Line pick(const Line& english, const Line& spanish) const;
  /// For a paragraph: a line for each language.
  std::vector<Line> each(const Sentence& sentence) const;

 private:
  Language language_;
};

/// The words of a terminal, and of texts for programs.
inline constexpr Wording kEnglishWords(Language::kEnglish);

}  // namespace greta
