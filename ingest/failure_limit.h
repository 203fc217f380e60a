#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingest/said_words.h"

/// Differences beside the tolerances that are stated of them: numbers are compared, whatever the
/// words around them say. Pure functions of any bytes.
namespace greta {

/// A number by what its name says that it is.
struct Quantity {
  enum class Kind { kDifference, kLimit };
  enum class Scale { kAny, kAbsolute, kRelative, kUlp };

  Kind kind = Kind::kDifference;
  Scale scale = Scale::kAny;
  double value = 0;
  std::vector<std::string> of_what;  ///< a difference's words; those of a limit that narrow it
};

/// Whether a name may be that of a limit, as hardly any is: "tolerance", "max_err_limit".
bool may_name_limit(std::string_view name);

/// The number under a name, "max_diff", "atol"; nothing of one that is neither a difference nor a
/// limit of one, as "diff_count".
std::optional<Quantity> quantity_of(SaidWords name, double value);

/// The first difference that is greater than the limit that is stated for it; nullptr if none is. A
/// limit is for the differences that have all its words: "logits_tol" for "logits_max_diff",
/// "rtol" for what is relative. Of an absolute and a relative one together neither alone decides.
const Quantity* first_excess(std::span<const Quantity> quantities);

/// "max_diff=0.5 tolerance=0.01", "max diff 0.5 > 0.01", "error 0.5 (must be < 0.01)": whether a
/// line, of those words, states such a difference, and not what would follow of one.
bool line_states_excess(std::string_view line, SaidWords words);

}  // namespace greta
