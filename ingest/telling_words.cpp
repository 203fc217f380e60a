#include "ingest/telling_words.h"

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <unordered_map>

#include "common/utf8.h"
#include "ingest/failure_words.h"
#include "ingest/text.h"

namespace greta::said {
namespace {

/// 1 to 26, 0 of what is no letter.
size_t letter_number(char c) { return text::is_letter(c) ? static_cast<size_t>(c & 0x1f) : 0; }

/// Words without which no line claims anything, found by their first three letters.
class TellingWords {
 public:
  TellingWords() {
    for (const std::string_view word : telling_words()) add(word);
  }
  /// True also of a line that may spell them otherwise, with accents or marks.
  bool may_be_in(std::string_view line) const {
    size_t letters = 0, spaced = 0;  // of the word so far; words of one letter, as "F A I L"
    for (size_t i = 0; i < line.size(); ++i) {
      if (static_cast<unsigned char>(line[i]) >= 0x80) {
        const utf8::Head head = utf8::head(line.substr(i));
        const bool is_accent = head.is_character() && plain_letter(head.code) != '\0';
        if (is_accent ? letters < kBegun : may_be_part(head)) return true;
        if (head.is_character() && look_alike(head.code) != '\0' && is_amid(line, i, head.bytes))
          return true;
        letters = is_accent ? letters + 1 : 0;
        i += std::max<size_t>(head.bytes, 1) - 1;
        continue;
      }
      if (!text::is_letter(line[i])) {
        if (line[i] >= '<' && line[i] <= '>' && compares(line, i)) return true;
        letters = 0;
        continue;
      }
      const bool is_camel = text::is_upper(line[i]) && letters > 0 && text::is_lower(line[i - 1]);
      letters = is_camel ? 1 : letters + 1;
      if (letters > 1) continue;
      const std::string_view rest = line.substr(i);
      const bool is_apart =
          (i == 0 || !text::is_word(line[i - 1])) && (rest.size() == 1 || !text::is_word(rest[1]));
      spaced = is_apart ? spaced + 1 : 0;
      if (spaced == kSpacedLetters || is_begun_by(rest)) return true;
    }
    return false;
  }

 private:
  static constexpr size_t kBegun = 3;
  static constexpr char32_t kUnequal = 0x2260;

  /// "5 != 7", "5 == 7", "0.5 > 0.1", at the last mark of "=" and the first of others; not a rule
  /// of
  /// "=", an arrow or a tag.
  static bool compares(std::string_view line, size_t at) {
    const auto is = [line](size_t i, char c) { return i < line.size() && line[i] == c; };
    if (line[at] != '=') return is(at - 1, ' ') && (is(at + 1, ' ') || is(at + 1, '='));
    return is(at - 1, '!') || (is(at - 1, '=') && !is(at - 2, '=') && !is(at + 1, '='));
  }

  /// What is no letter of its own, and changes what is read: a mark that fails, what is not shown.
  static bool may_be_part(const utf8::Head& head) {
    return head.is_character() && (is_combining(head.code) || !utf8::is_shown(head.code) ||
                                   head.code == kUnequal || word_of_mark(head.code) == "fail");
  }

  /// Whether what is at `at` has a letter of ASCII beside it.
  static bool is_amid(std::string_view line, size_t at, size_t bytes) {
    const std::string_view rest = line.substr(at + bytes);
    return (at > 0 && text::is_letter(line[at - 1])) ||
           (!rest.empty() && text::is_letter(rest.front()));
  }

  static size_t key_of(std::string_view word) {
    size_t key = 0;
    for (size_t i = 0; i < kBegun; ++i) {
      key = (key << 5) | (i < word.size() ? letter_number(word[i]) : 0);
    }
    return key;
  }

  bool is_begun_by(std::string_view rest) const {
    const size_t key = key_of(rest);
    for (const size_t begun : {key, key & ~size_t{31}}) {
      if (!begun_[begun]) continue;
      const auto [first, last] = words_.equal_range(begun);
      for (auto it = first; it != last; ++it) {
        if (begins_with(rest, it->second)) return true;
      }
    }
    return false;
  }

  /// As far as the letters are ASCII: behind that it may be spelled otherwise.
  static bool begins_with(std::string_view text, std::string_view word) {
    for (size_t i = 0; i < word.size(); ++i) {
      if (i == text.size()) return false;
      if (static_cast<unsigned char>(text[i]) >= 0x80) return true;
      if (letter_number(text[i]) != letter_number(word[i])) return false;
    }
    return true;
  }

  void add(std::string_view word) {
    const size_t key = key_of(word);
    begun_.set(key);
    words_.emplace(key, word);
  }

  std::bitset<1 << 15> begun_;
  std::unordered_multimap<size_t, std::string_view> words_;
};

}  // namespace

bool has_telling_word(std::string_view line) {
  static const TellingWords telling;
  return telling.may_be_in(line);
}

}  // namespace greta::said
