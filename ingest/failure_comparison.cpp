#include "ingest/failure_comparison.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>

#include "ingest/printed_hash.h"
#include "ingest/text.h"

namespace greta {
namespace {

using said::is_any_of;

constexpr size_t kMaxLiteral = 64;  // bytes
constexpr std::string_view kUnequalMark = "\u2260";

/// A value that is written out.
struct Literal {
  std::string_view text;
  bool is_quoted = false;
};

bool is_literal_part(char c) { return text::is_word(c) || c == '.' || c == '+' || c == '-'; }

std::optional<double> literal_number(std::string_view text) {
  while (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  return text::number<double>(text);
}

bool is_number_literal(std::string_view text) {
  const bool is_hex = text.size() > 2 && text.starts_with("0x") &&
                      text.find_first_not_of("0123456789abcdefABCDEF", 2) == text.npos;
  return is_hex || (literal_number(text) && text::is_digit(text.back()));
}

/// What a program computes with, beside a number.
bool computes(char c) { return std::string_view("+-*/%&^~)]=").find(c) != std::string_view::npos; }

std::optional<Literal> quoted_literal(std::string_view text, bool at_end) {
  const char quote = at_end ? text.back() : text.front();
  if (quote != '"' && quote != '\'') return std::nullopt;
  const size_t other = at_end ? text.substr(0, text.size() - 1).rfind(quote) : text.find(quote, 1);
  if (other == text.npos) return std::nullopt;
  return Literal{
      at_end ? text.substr(other + 1, text.size() - other - 2) : text.substr(1, other - 1), true};
}

/// The value that stands last in what is before a mark.
std::optional<Literal> literal_before(std::string_view text) {
  text = text::trim(text);
  if (text.size() > kMaxLiteral) text.remove_prefix(text.size() - kMaxLiteral);
  if (text.empty()) return std::nullopt;
  if (const auto literal = quoted_literal(text, true)) return literal;
  size_t begin = text.size();
  while (begin > 0 && is_literal_part(text[begin - 1])) --begin;
  const std::string_view before = text::trim(text.substr(0, begin));
  if (!is_number_literal(text.substr(begin)) || (!before.empty() && computes(before.back())))
    return std::nullopt;
  return Literal{text.substr(begin)};
}

/// The value that stands first in what is behind one.
std::optional<Literal> literal_behind(std::string_view text) {
  text = text::trim(text).substr(0, kMaxLiteral);
  if (text.empty()) return std::nullopt;
  if (const auto literal = quoted_literal(text, false)) return literal;
  size_t end = 0;
  while (end < text.size() && is_literal_part(text[end])) ++end;
  std::string_view value = text.substr(0, end);
  if (value.ends_with('.')) value.remove_suffix(1);
  const std::string_view behind = text::trim(text.substr(end));
  const bool is_computed = !behind.empty() && (std::string_view("([*/%&+").find(behind.front()) !=
                                               std::string_view::npos);
  if (!is_number_literal(value) || is_computed) return std::nullopt;
  return Literal{value};
}

/// Whether they are equal; nothing where nobody can tell.
std::optional<bool> are_equal(const Literal& a, const Literal& b) {
  if (a.is_quoted != b.is_quoted) return std::nullopt;
  if (a.is_quoted) return a.text == b.text;
  const bool is_real = a.text.find('.') != a.text.npos || b.text.find('.') != b.text.npos;
  if (!is_real) return same_printed_hash(a.text, b.text);
  return literal_number(a.text) == literal_number(b.text);
}

/// "assert 5 == 7": what is behind such a word should hold.
bool is_asserted(std::string_view before) {
  const std::vector<std::string_view> tokens = said::tokens_of(before, kMaxLiteral);
  return std::any_of(tokens.begin(), tokens.end(), [](std::string_view token) {
    const std::string word = text::to_lower(token);
    return word == "assert" || word.starts_with("expect");
  });
}

/// The next mark of a comparison from `at` on: where it begins and ends.
struct ComparisonMark {
  size_t begin, bytes;
  char kind;  ///< '=' or '!'; '<', '>' and 'l', 'g' with "="
};
std::optional<ComparisonMark> next_comparison(std::string_view line, size_t at) {
  for (at = line.find_first_of("=!<>\xe2", at); at < line.size();
       at = line.find_first_of("=!<>\xe2", at + 1)) {
    const std::string_view rest = line.substr(at);
    if (rest.starts_with(kUnequalMark)) return ComparisonMark{at, kUnequalMark.size(), '!'};
    if (line[at] == '\xe2') continue;
    const size_t end = std::min(line.find_first_not_of("=!<>-", at), line.size());
    const std::string_view mark = line.substr(at, end - at);
    if (mark == "!=") return ComparisonMark{at, 2, '!'};
    if (mark == "==") return ComparisonMark{at, 2, '='};
    if (mark == "<" || mark == ">") return ComparisonMark{at, 1, mark[0]};
    if (mark == "<=" || mark == ">=") return ComparisonMark{at, 2, mark[0] == '<' ? 'l' : 'g'};
    at = end - 1;
  }
  return std::nullopt;
}

bool holds_in_order(const ComparisonMark& mark, double a, double b) {
  switch (mark.kind) {
    case '<':
      return a < b;
    case '>':
      return a > b;
    case 'l':
      return a <= b;
    default:
      return a >= b;
  }
}

bool is_in_vain(std::string_view line, const ComparisonMark& mark) {
  const std::string_view before = line.substr(0, mark.begin);
  const auto a = literal_before(before), b = literal_behind(line.substr(mark.begin + mark.bytes));
  if (!a || !b) return false;
  if (mark.kind == '=') return are_equal(*a, *b) == false;
  if (mark.kind == '!') return are_equal(*a, *b) == is_asserted(before);
  if (a->is_quoted || b->is_quoted || !is_asserted(before)) return false;
  const auto x = text::number<double>(a->text), y = text::number<double>(b->text);
  return x && y && !holds_in_order(mark, *x, *y);
}

/// "produced", "contains": what had a NaN.
bool has_something(std::string_view word) {
  return is_any_of(word, {"contains", "contain", "contained", "has", "have", "produced", "produces",
                          "got", "found", "returned", "is", "are", "became", "becomes",
                          "encountered", "was", "were", "detected"});
}

}  // namespace

bool line_compares_in_vain(std::string_view line, SaidWords words) {
  const auto is_text_of_program = [](const SaidWord& word) {
    return said::supposes(word.text) || is_any_of(word.text, {"while", "until", "elif"});
  };
  if (std::any_of(words.begin(), words.end(), is_text_of_program)) return false;
  for (auto mark = next_comparison(line, 0); mark;
       mark = next_comparison(line, mark->begin + mark->bytes)) {
    if (is_in_vain(line, *mark)) return true;
  }
  return false;
}

bool tells_of_nan(SaidWords words) {
  const auto is_nan = [](std::string_view word) { return word == "nan" || word == "nans"; };
  bool is_told = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i].text;
    const bool is_doubted = said::supposes(word) || said::is_negation(word) ||
                            said::is_zero(word) ||
                            is_any_of(word, {"any", "must", "can", "what", "how", "t", "cannot",
                                             "ignored", "counts", "until"});
    if (is_doubted) return false;
    if (!is_nan(word)) continue;
    const bool ends =
        i + 1 == words.size() || (words[i + 1].opens && !said::is_nothing(words[i + 1].text));
    const bool is_placed =
        i + 1 < words.size() && !words[i + 1].opens &&
        is_any_of(words[i + 1].text, {"at", "in", "values", "value", "found", "from"});
    size_t verb = i;
    while (verb > 0 && i - verb < 2 && !words[verb].opens && !has_something(words[verb].text))
      --verb;
    const bool is_object = verb < i && !words[i].opens && has_something(words[verb].text);
    const bool is_of_layer = i + 2 < words.size() && is_placed &&
                             is_any_of(words[i + 1].text, {"at", "in"}) && i + 4 >= words.size() &&
                             text::is_digit(words.back().text.back());
    is_told |= (is_object && (ends || is_placed)) || is_of_layer;
  }
  return is_told;
}

}  // namespace greta
