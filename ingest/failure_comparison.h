#pragma once
#include <string_view>

#include "ingest/failure_words.h"

/// Comparisons of two values that are written out, and do not hold: "5 != 7", "assert 5 == 7". Pure
/// functions of any bytes, linear in them.
namespace greta {

/// Whether a line, of those words, says of two numbers or two quoted texts that they are not equal,
/// calls them equal and they are not, or asserts another order than they have. What names one of
/// them, "n != 7", is text of a program.
bool line_compares_in_vain(std::string_view line, SaidWords words);

/// "logits contains NaN", "the output is NaN", "NaN at layer 3".
bool tells_of_nan(SaidWords words);

}  // namespace greta
