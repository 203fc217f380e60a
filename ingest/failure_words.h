#pragma once
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The words by which texts say that something failed, in English and the languages that reports
/// are written in. Pure functions of any bytes. A word is in lower case, without accents.
namespace greta {

struct SaidWord {
  std::string text;    ///< lower case, without accents
  bool opens = false;  ///< behind what ends a clause
};
using SaidWords = std::span<const SaidWord>;

/// The first words of a text, `max_words` at most; "firstFail" is two, and a mark, as a cross, is
/// the word that it stands for.
std::vector<SaidWord> said_words(std::string_view text, size_t max_words);

/// Words that a negation reaches: "none of the tests failed".
inline constexpr size_t kNegatedWords = 3;

/// Whether one of the words fails and is not negated, or is fine and is.
bool says_failure(SaidWords words);

/// What follows a word that fails says that nothing did: "failures: none", "fail=0".
bool counts_no_failure(SaidWords rest);

namespace said {

bool is_any_of(std::string_view word, std::initializer_list<std::string_view> all);

/// What stands between blanks, as it is written, without the marks around each; marks alone are
/// none.
std::vector<std::string_view> tokens_of(std::string_view line, size_t max_tokens);

/// Whether a word says that something failed.
bool is_failed(std::string_view word);
/// Whether it does, or says that something is not as it should be, as "mismatch".
bool is_failure_word(std::string_view word);
/// Whether it says that something is as it should be.
bool is_fine(std::string_view word);
/// "not", "without".
bool is_negation(std::string_view word);
/// Words that stand alone for no, and for yes.
bool is_no(std::string_view word);
bool is_yes(std::string_view word);
/// Whether it is judged by what follows: "verdict".
bool is_judging(std::string_view word);
/// Whether it stands in the name of a number, or of a setting, that is no count of what failed.
bool is_measuring(std::string_view word);
/// What stands between a word that judges and what it says: "is".
bool is_copula(std::string_view word);
/// "0", "0.0".
bool is_zero(std::string_view word);
/// A whole number that is not 0.
bool is_count(std::string_view word);
/// What stands where nothing failed: "none", "0", "no".
bool is_nothing(std::string_view word);

/// False of a line that has none of the words without which no line claims a failure, as hardly any
/// line has. True also of one that may spell them otherwise, with accents or what is not shown.
bool has_telling_word(std::string_view line);

}  // namespace said

}  // namespace greta
