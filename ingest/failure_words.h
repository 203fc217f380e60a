#pragma once
#include <cstddef>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "ingest/said_words.h"

/// The words by which texts say that something failed, in English and the languages that reports
/// are written in. Pure functions of any bytes; words are those of said_words.
namespace greta {

/// Words that a negation reaches: "none of the tests failed".
inline constexpr size_t kNegatedWords = 3;

/// Whether one of the words fails and is not negated, or is fine and is.
bool says_failure(SaidWords words);

/// What follows a word that fails says that nothing did: "failures: none", "fail=0".
bool counts_no_failure(SaidWords rest);

namespace said {

bool is_any_of(std::string_view word, std::initializer_list<std::string_view> all);

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
/// Whether a word makes of the clause behind it a condition or a description: "if".
bool supposes(std::string_view word);
/// "0", "0.0".
bool is_zero(std::string_view word);
/// A whole number that is not 0.
bool is_count(std::string_view word);
/// What stands where nothing failed: "none", "0", "no".
bool is_nothing(std::string_view word);

/// Words, and what words begin with, without which no line claims a failure.
std::vector<std::string_view> telling_words();

}  // namespace said

}  // namespace greta
