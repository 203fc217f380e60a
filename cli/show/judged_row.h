#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/show/texts.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"
#include "cli/warehouse/verdict.h"

namespace greta {

/// A run, its row of run_verdict and what it is told by first.
struct JudgedRow {
  /// Throws SQLite::Exception, and std::logic_error of what is no run that is judged.
  JudgedRow(QueryPool& statements, const Run& run);
  JudgedRow(const JudgedRow&) = delete;
  JudgedRow& operator=(const JudgedRow&) = delete;

  Run run;
  RunVerdict verdict;
  Headline head;
};

using JudgedRows = std::vector<std::unique_ptr<JudgedRow>>;

JudgedRows judged_rows(QueryPool& statements, const std::vector<Run>& runs);

/// Headline::remark of a run of that mode, in the language of the report: "beyond rounding",
/// "(rounding only; bitwise equal: no, as expected in as_designed)".
std::string remark_text(const std::string& remark, const std::string& mode, const Wording& words);

/// The verdict, and the remark behind it.
Line headline_of(const std::string& verdict, const std::string& remark, const std::string& mode,
                 const Wording& words);

/// Why a run fails: by values that are known to differ, by values that differ by nobody knows how
/// much, or by rows that have no partner.
enum class FailKind { kNone, kValues, kUnmeasured, kUnpaired };
/// By the verdict that counts, the cause of its first fail, and what the other verdict is.
FailKind fail_kind(std::string_view verdict, std::string_view cause, Gate gate,
                   std::string_view other);
FailKind fail_kind(const Headline& head);

/// A verdict as a badge of a page: each kind of FAIL has a shape of its own, and words where it is
/// not plain.
Line verdict_badge(const std::string& verdict, FailKind kind, const Wording& words);
/// That of a run, and the remark behind it.
Line verdict_badge(const Headline& head, const Wording& words);

/// "2 FAIL, 3 PASS", of how many there are of each.
std::string counts_text(const std::map<std::string, size_t>& numbers);
std::string counts_text(const JudgedRows& rows);

/// A layer as its column is called: what lies after the stack has a name.
std::string layer_name(const std::optional<int64_t>& layer, const Wording& words);

/// "attn_out, layer 3, prompt p0"; that there is no single place, where none is known.
std::string fail_place(const FailPlace& place, const Wording& words);

}  // namespace greta
