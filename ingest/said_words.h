#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The words of a text as they are read: in lower case, without accents, with the word for a mark
/// that stands for one. Pure functions of any bytes.
namespace greta {

struct SaidWord {
  std::string text;    ///< lower case, without accents
  bool opens = false;  ///< behind what ends a clause
};
using SaidWords = std::span<const SaidWord>;

/// The first words of a text, `max_words` at most; "firstFail" is two, and a mark, as a cross, is
/// the word that it stands for.
std::vector<SaidWord> said_words(std::string_view text, size_t max_words);

namespace said {

/// Letters that stand alone are one word from so many on: "F A I L".
inline constexpr size_t kSpacedLetters = 4;

constexpr bool is_combining(char32_t code) { return code >= 0x300 && code <= 0x36f; }

/// The character as a letter or digit of ASCII; 0 for what is neither.
char plain_letter(char32_t code);

/// The letter of ASCII that a letter of another script looks like; 0: none. Only beside letters of
/// ASCII it is meant to be one.
char look_alike(char32_t code);

/// The mark as the word that it stands for; "" for what is none.
std::string_view word_of_mark(char32_t code);

/// The text as it looks: without what is not shown, and with letters of ASCII for those that look
/// like them amid such letters, or are such of another width or shape.
std::string with_plain_letters(std::string_view text);

/// The text as a terminal shows it: without what colours it, ESC [ to the letter that ends it, and
/// without what a backspace goes over.
std::string as_shown(std::string_view text);

/// What stands between blanks, as it is written, without the marks around each; marks alone are
/// none.
std::vector<std::string_view> tokens_of(std::string_view line, size_t max_tokens);

}  // namespace said

}  // namespace greta
