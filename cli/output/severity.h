#pragma once
#include <string>
#include <string_view>

#include "cli/output/output.h"

namespace greta {

/// How a reader should take a word, in ascending order.
enum class Severity { kContext, kGood, kRounding, kOpen, kBad };

/// A row of db/sql/severity.sql, where this is decided.
struct Meaning {
  Severity severity = Severity::kOpen;
  int rank = 0;     ///< the worse the greater
  char look = 'u';  ///< the first letter of its square's class in page.css
};

/// The meaning of a verdict, of a comparison's "STATUS CLASS", of a change, ...; of a word that
/// nothing is known of, that of the word before a blank in it, else that it is open.
const Meaning& meaning_of(std::string_view word);

/// `text` in the colour of its meaning: green, red, yellow; as is without colours.
std::string colored(const Output& out, std::string_view text);

}  // namespace greta
