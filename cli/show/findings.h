#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/show/texts.h"
#include "cli/warehouse/sql_query.h"

namespace greta {

/// A finding of the view diagnosis about a failing pair, with its sentence.
struct PairFinding {
  std::string prompt, tensor, name;
  std::optional<int64_t> layer;
  std::string english, spanish;                  ///< see evidence()
  std::string english_meaning, spanish_meaning;  ///< see meaning()

  /// "every value of decode's row is NaN"
  std::string evidence(const Wording& words) const { return words.pick(english, spanish).text(); }
  /// The usual cause of such rows.
  std::string meaning(const Wording& words) const {
    return words.pick(english_meaning, spanish_meaning).text();
  }
  /// "ALL_NAN: every value of decode's row is NaN (it reads what ...)"
  std::string text(const Wording& words) const {
    return name + ": " + evidence(words) + " (" + meaning(words) + ")";
  }
};

/// Findings about the first failing pairs of a run, prompt by prompt or of one prompt, the most
/// telling first. Throws SQLite::Exception.
std::vector<PairFinding> pair_findings(QueryPool& statements, int64_t run_id,
                                       const std::optional<std::string>& prompt = {});

}  // namespace greta
