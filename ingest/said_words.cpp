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
    if (in_word_ && was_lower_ && text::is_upper(c)) end();
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
  return with_letters_joined(SaidWordReader().read(text, max_words));
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
  return is_wide ? static_cast<char>(code - 0xfee0) : '\0';
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
    case 0x1f534:
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
