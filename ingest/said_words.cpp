#include "ingest/said_words.h"

#include <algorithm>
#include <utility>

#include "common/utf8.h"
#include "ingest/text.h"

namespace greta {
namespace {

/// Letters of Latin-1 from U+00C0 without accents; ' ' is none.
constexpr std::string_view kLatin =
    "aaaaaaaceeeeiiiidnooooo ouuuuytsaaaaaaaceeeeiiiidnooooo ouuuuyty";

/// A letter of another script, and the one of ASCII that it looks like.
struct LookAlike {
  char32_t code;
  char letter;
};

/// In order.
constexpr LookAlike kLookAlikes[] = {
    {0x391, 'A'},  {0x392, 'B'}, {0x395, 'E'}, {0x396, 'Z'},  {0x397, 'H'},  {0x399, 'I'},
    {0x39a, 'K'},  {0x39c, 'M'}, {0x39d, 'N'}, {0x39f, 'O'},  {0x3a1, 'P'},  {0x3a4, 'T'},
    {0x3a5, 'Y'},  {0x3a7, 'X'}, {0x3b1, 'a'}, {0x3b9, 'i'},  {0x3ba, 'k'},  {0x3bd, 'v'},
    {0x3bf, 'o'},  {0x3c1, 'p'}, {0x3c5, 'u'}, {0x3dc, 'F'},  {0x405, 'S'},  {0x406, 'I'},
    {0x408, 'J'},  {0x410, 'A'}, {0x412, 'B'}, {0x415, 'E'},  {0x41a, 'K'},  {0x41c, 'M'},
    {0x41d, 'H'},  {0x41e, 'O'}, {0x420, 'P'}, {0x421, 'C'},  {0x422, 'T'},  {0x423, 'Y'},
    {0x425, 'X'},  {0x430, 'a'}, {0x435, 'e'}, {0x43e, 'o'},  {0x440, 'p'},  {0x441, 'c'},
    {0x443, 'y'},  {0x445, 'x'}, {0x455, 's'}, {0x456, 'i'},  {0x458, 'j'},  {0x4c0, 'I'},
    {0x501, 'd'},  {0x51b, 'q'}, {0x51d, 'w'}, {0x13a0, 'D'}, {0x13aa, 'A'}, {0x13da, 'S'},
    {0x13de, 'L'}, {0x15b4, 'F'}};

constexpr size_t kMostLookAlikes = 8;  // one behind the other, that are looked beyond

/// Whether the first letter of a text is of ASCII, behind such that look like it.
bool begins_with_letter(std::string_view text) {
  for (size_t n = 0; n <= kMostLookAlikes && !text.empty(); ++n) {
    if (static_cast<unsigned char>(text[0]) < 0x80) return text::is_letter(text[0]);
    const utf8::Head head = utf8::head(text);
    if (!head.is_character()) return false;
    const bool is_part = said::look_alike(head.code) != '\0' || !utf8::is_shown(head.code);
    if (!is_part) return text::is_letter(said::plain_letter(head.code));
    text.remove_prefix(head.bytes);
  }
  return false;
}

bool ends_clause(char32_t code) {
  return code == 0x2013 || code == 0x2014 ||
         (code < 0x80 && std::string_view(".,;:!?()[]{}|=\t\"").find(static_cast<char>(code)) !=
                             std::string_view::npos);
}

class SaidWordReader {
 public:
  std::vector<SaidWord> read(std::string_view text, size_t max_words) {
    while (!text.empty() && words_.size() <= max_words) {
      if (static_cast<unsigned char>(text[0]) < 0x80) {
        take(static_cast<char32_t>(text[0]), text.substr(1));
        text.remove_prefix(1);
        continue;
      }
      const utf8::Head head = utf8::head(text);
      take(head.is_character() ? head.code : U' ', text.substr(head.bytes));
      text.remove_prefix(std::max<size_t>(head.bytes, 1));
    }
    if (words_.size() > max_words) words_.resize(max_words);
    return std::move(words_);
  }

 private:
  void take(char32_t code, std::string_view rest) {
    if (code >= 0x80 && (said::is_combining(code) || !utf8::is_shown(code))) return;
    if (const std::string_view mark = said::word_of_mark(code); !mark.empty()) {
      end();
      begin();
      words_.back().text = mark;
      return end();
    }
    const bool is_point = code == U'.' && in_word_ && text::is_digit(words_.back().text.back()) &&
                          !rest.empty() && text::is_digit(rest.front());
    const char c = is_point ? '.' : said::plain_letter(code);
    if (c == '\0') {
      end();
      opens_ |= ends_clause(code);
      return;
    }
    const bool is_nan = in_word_ && c == 'N' && words_.back().text == "na";  // "NaN" is one word
    if (in_word_ && was_lower_ && text::is_upper(c) && !is_nan) end();
    if (!in_word_) begin();
    words_.back().text += text::is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
    was_lower_ = text::is_lower(c);
  }
  void begin() {
    words_.push_back({"", std::exchange(opens_, false)});
    in_word_ = true;
  }
  void end() { in_word_ = was_lower_ = false; }

  std::vector<SaidWord> words_;
  bool in_word_ = false, was_lower_ = false, opens_ = false;
};

std::vector<SaidWord> with_letters_joined(std::vector<SaidWord> words) {
  std::vector<SaidWord> joined;
  for (size_t i = 0; i < words.size();) {
    size_t end = i;
    while (end < words.size() && words[end].text.size() == 1 &&
           text::is_letter(words[end].text[0]) && (end == i || !words[end].opens)) {
      ++end;
    }
    joined.push_back(std::move(words[i]));
    if (end - i < said::kSpacedLetters) {
      ++i;
      continue;
    }
    for (++i; i < end; ++i) joined.back().text += words[i].text;
  }
  return joined;
}

}  // namespace

std::vector<SaidWord> said_words(std::string_view text, size_t max_words) {
  if (text::is_ascii(text)) return with_letters_joined(SaidWordReader().read(text, max_words));
  return with_letters_joined(SaidWordReader().read(said::with_plain_letters(text), max_words));
}

namespace said {

char plain_letter(char32_t code) {
  if (code < 0x80) {
    const char c = static_cast<char>(code);
    return text::is_letter(c) || text::is_digit(c) ? c : '\0';
  }
  if (code >= 0xc0 && code <= 0xff) return kLatin[code - 0xc0] == ' ' ? '\0' : kLatin[code - 0xc0];
  const bool is_wide = (code >= 0xff10 && code <= 0xff19) || (code >= 0xff21 && code <= 0xff3a) ||
                       (code >= 0xff41 && code <= 0xff5a);
  if (is_wide) return static_cast<char>(code - 0xfee0);
  const auto shaped = [code](char32_t first, char32_t letters, char letter) {
    return static_cast<char>(letter + static_cast<char>((code - first) % letters));
  };
  if (code >= 0x1d400 && code <= 0x1d6a3) {  // of mathematics: bold, italic and so on
    const bool is_capital = (code - 0x1d400) % 52 < 26;
    return shaped(0x1d400, 26, is_capital ? 'A' : 'a');
  }
  if (code >= 0x24b6 && code <= 0x24cf) return shaped(0x24b6, 26, 'A');  // in circles
  if (code >= 0x24d0 && code <= 0x24e9) return shaped(0x24d0, 26, 'a');
  if (code >= 0x1f130 && code <= 0x1f149) return shaped(0x1f130, 26, 'A');  // in squares
  if (code >= 0x1f170 && code <= 0x1f189) return shaped(0x1f170, 26, 'A');
  return '\0';
}

char look_alike(char32_t code) {
  const auto* at =
      std::lower_bound(std::begin(kLookAlikes), std::end(kLookAlikes), code,
                       [](const LookAlike& other, char32_t wanted) { return other.code < wanted; });
  return at != std::end(kLookAlikes) && at->code == code ? at->letter : '\0';
}

std::string with_plain_letters(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  while (!text.empty()) {
    const utf8::Head head = utf8::head(text);
    const size_t bytes = std::max<size_t>(head.bytes, 1);
    const std::string_view written = text.substr(0, bytes);
    text.remove_prefix(bytes);
    if (written.size() == 1 || !head.is_character()) {
      plain += written;
      continue;
    }
    if (!utf8::is_shown(head.code)) continue;
    const char alike = look_alike(head.code);
    const bool is_amid = alike != '\0' && ((!plain.empty() && text::is_letter(plain.back())) ||
                                           begins_with_letter(text));
    const bool is_wide = head.code >= 0xff01 && head.code <= 0xff5e;
    // an accent is part of what said_words reads
    const char letter = is_amid            ? alike
                        : is_wide          ? static_cast<char>(head.code - 0xfee0)
                        : head.code > 0xff ? plain_letter(head.code)
                                           : '\0';
    if (letter == '\0') {
      plain += written;
    } else {
      plain += letter;
    }
  }
  return plain;
}

std::string_view word_of_mark(char32_t code) {
  switch (code) {
    case 0x2715:
    case 0x2717:
    case 0x2718:
    case 0x2716:
    case 0x274c:
    case 0x274e:
    case 0x26d4:
    case 0x1f44e:
    case 0x1f4a5:
    case 0x1f534:
    case 0x1f6ab:
    case 0x1f6d1:
      return "fail";
    case 0x2705:
    case 0x2713:
    case 0x2714:
    case 0x1f7e2:
      return "ok";
    default:
      return {};
  }
}

std::string as_shown(std::string_view text) {
  constexpr std::string_view kColour = "\x1b[";
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '\b') {
      if (!shown.empty()) shown.pop_back();
      ++at;
    } else if (text.substr(at).starts_with(kColour)) {
      for (at += kColour.size(); at < text.size() && !text::is_letter(text[at]);) ++at;
      at += at < text.size();
    } else {
      shown += text[at++];
    }
  }
  return shown;
}

std::vector<std::string_view> tokens_of(std::string_view line, size_t max_tokens) {
  const auto is_mark = [](char c) {
    return !text::is_word(c) && static_cast<unsigned char>(c) < 0x80;
  };
  std::vector<std::string_view> tokens;
  while (tokens.size() < max_tokens && !(line = text::trim(line)).empty()) {
    std::string_view token = line.substr(0, line.find_first_of(" \t"));
    line.remove_prefix(token.size());
    while (!token.empty() && is_mark(token.front())) token.remove_prefix(1);
    while (!token.empty() && is_mark(token.back())) token.remove_suffix(1);
    if (!token.empty()) tokens.push_back(token);
  }
  return tokens;
}

}  // namespace said

}  // namespace greta
