#pragma once
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "ingest/table.h"

namespace greta {

/// Claims of failure that lines of a text make together, one after the other: what `diff` prints of
/// two things, tables of pipes that no rule of dashes makes one of Markdown, and a difference and
/// its tolerance, or two values of which one is expected, below each other ("name: value"). It
/// keeps the columns of a table, and where the last few lines are.
class FailureLines {
 public:
  /// `is_of_one_run`: what tables list is of the run at hand, as in its log.
  explicit FailureLines(bool is_of_one_run) : is_of_one_run_(is_of_one_run) {}

  /// Whether the line claims a failure, by itself or behind the last ones. Any bytes, no line end;
  /// they must stay where they are until kLinesHeld lines later.
  bool claims(std::string_view line);

  static constexpr size_t kLinesHeld = 8;

 private:
  bool ends_difference(std::string_view line);
  bool is_failing_row(std::string_view line);
  bool disagrees(std::string_view line);

  enum class Difference { kNone, kOldName, kNames, kRange, kOldLine, kRule };

  bool is_of_one_run_;
  Difference difference_ = Difference::kNone;
  std::string old_name_;
  Table head_;  ///< of a table, its columns
  bool head_tells_ = false;
  std::array<std::string_view, kLinesHeld>
      held_;                     ///< lines with no blank one between, the last ones
  size_t lines_held_ = 0;        ///< of them, and before
  size_t lines_to_look_at_ = 0;  ///< behind one that says what should be
};

}  // namespace greta
