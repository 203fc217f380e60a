#pragma once
#include <string_view>

#include "ingest/failure_words.h"

/// How texts count: what failed ("3 failed, 97 passed"), and that less than all is as it should be
/// ("99 of 100 passed", "7/8 ok", "success_rate: 0.97"). Pure functions of any bytes, linear in
/// them.
namespace greta {

/// Whether the words say how many failed: "3 tests failed", "found 2 mismatches".
bool counts_failures(SaidWords words);

/// Whether a line, of those words, counts fewer successes than there were attempts, or gives a rate
/// of them below one: "47/48 PASS", "97% passed", "pass rate 97 %".
bool counts_too_few(std::string_view line, SaidWords words);

/// Whether a key is a rate of success: "success_rate", "pass percentage".
bool is_success_rate(SaidWords key);

/// Whether the value of such a key is less than all: 0.97, "97 %", "47/48".
bool is_low_rate(SaidWords value);

/// Whether what follows "passed" is less than all: 0.97, "47/48", "47 of 48"; not 47 alone.
bool is_short_share(SaidWords value);

/// Whether a value is "3/4", "3 out of 4": of two numbers the greater last, and nothing more.
bool is_part_of_all(SaidWords value);

/// Whether a key counts things by what is wrong with them: "mismatched elements", "failed_tests".
bool counts_what_failed(SaidWords key);

}  // namespace greta
