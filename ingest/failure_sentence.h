#pragma once
#include <string_view>

#include "ingest/failure_words.h"

/// How running text says that something failed: in a sentence ("the verdict is FAIL"), by nothing
/// but the word ("TEST FAILED"), as a test's summary counts it ("3 failed, 97 passed"), at the
/// level of a log ("12:30:01 ERROR ..."), and as a program ends that was not meant to
/// ("Segmentation fault", "CUDA error", a traceback). Pure functions of any bytes.
namespace greta {

/// Whether a line does; `words` are all of its words.
bool says_failure_in_a_sentence(std::string_view line, SaidWords words);

}  // namespace greta
