#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "cli/show/judged_row.h"
#include "cli/show/texts.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"
#include "cli/warehouse/verdict.h"

namespace greta {

/// The first row that differs, as view diff_verdict places it.
struct DifferencePlace {
  std::string prompt, phase, tensor;
  std::optional<int64_t> pos_id;
  int64_t layer = 0;
  // of that row
  std::string status, cls, hash_a, hash_b, measure, origin, segment, untraced_layers;
  std::optional<double> rel_l2;

  /// "DRIFT DIVERGENT at layer 3, attn_out, prompt p0, decode0, pos 37, rel_l2 0.5".
  std::string text(const Wording& words) const;
  /// "ORIGIN: between ..."; "" when not known.
  std::string origin_text(const Wording& words) const;
  std::string json() const;
};

/// The counts of diff_verdict and diff_tensor, by name.
inline constexpr const char* kDifferenceCounts[] = {
    "match", "rounding", "divergent", "unknown", "nonfinite", "incomparable", "only_a", "only_b"};

using DifferenceCounts = std::array<int64_t, std::size(kDifferenceCounts)>;

/// ", match, rounding, ...": as columns of a select list.
std::string difference_columns();
/// Those columns of a row, from column `from` on.
DifferenceCounts difference_counts(const Query& row, int from);

/// The difference of two runs, as the views have it.
struct RunDifference {
  Run a, b;
  std::string verdict, strict_verdict, numeric_verdict, why_not, caused_by, incomplete_why;
  int64_t compared = 0;
  DifferenceCounts counts{};
  std::optional<DifferencePlace> first;   ///< that differs, in forward order
  std::optional<DifferencePlace> beyond;  ///< that differs by more than rounding

  /// One of kDifferenceCounts.
  int64_t count(std::string_view name) const;
  const std::string& at(Gate gate) const {
    return gate == Gate::kVerdict  ? verdict
           : gate == Gate::kStrict ? strict_verdict
                                   : numeric_verdict;
  }
  bool begins_with_rounding() const;
  /// As Headline has them.
  std::string remark(Gate gate) const;
  std::string headline(Gate gate = Gate::kVerdict) const;
  FailKind fail_kind(Gate gate) const;
};

/// Throws SQLite::Exception.
RunDifference difference_of_runs(SQLite::Database& db, const Run& a, const Run& b);

}  // namespace greta
