#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/output/severity.h"
#include "cli/show/block.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"
#include "cli/warehouse/verdict.h"

namespace greta {

/// A run, its row of run_verdict and what it is told by first.
struct JudgedRow {
  /// `asked`: which verdict is wanted. Throws SQLite::Exception, and std::logic_error of what is no
  /// run that is judged.
  JudgedRow(QueryPool& statements, const Run& run, Gate asked = Gate::kVerdict);
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
/// The badge of a run, and the remark behind it.
Line verdict_badge(const Headline& head, const Wording& words);

/// The square of a verdict and of what else is no comparison.
Look look_of(Severity severity);

/// "2 FAIL, 3 PASS", of how many there are of each.
std::string counts_text(const std::map<std::string, size_t>& numbers);
std::string counts_text(const JudgedRows& rows);

/// A layer as its column is called: what lies after the stack has a name.
std::string layer_name(const std::optional<int64_t>& layer, const Wording& words);

/// "layer 3, attn_out, prompt p0, pos 37": as much of it as is known; that there is no single
/// place.
std::string place_text(const FailPlace& place, const Wording& words);
/// "ATTN_OUT_DRIFT (layer 3, ...)"; "-" where nothing fails.
std::string fail_text(const FailPlace& place, const Wording& words);

/// A finding of the view diagnosis about a place that fails, with its sentence.
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

/// Findings about the places where prompts of a run fail first, or about one of them, the most
/// telling first. Throws SQLite::Exception.
std::vector<PairFinding> pair_findings(QueryPool& statements, int64_t run_id,
                                       const std::string& tensor = "",
                                       std::optional<int64_t> layer = {});

/// A row of the canned query waived: pairs of a run that the gate leaves out.
struct AppliedWaiver {
  int64_t id = 0;
  std::string tensor;
  std::optional<int64_t> layer;  ///< none: every layer
  int64_t pairs = 0, divergent = 0;
  int64_t rows = 0;  ///< that differ from a baseline's: counted by the gate alone
  std::string until, reason, created_by;

  std::string json() const;
};

/// The waivers that waive something of the run, in order of their ids.
std::vector<AppliedWaiver> applied_waivers(QueryPool& statements, int64_t run_id);

/// "attn_out of layer 3", "attn_out": where a waiver holds.
std::string waived_place(const AppliedWaiver& waiver, const Wording& words);

/// "2 pairs of attn_out of layer 3 until 2026-12-31: reason (waiver 4, by me@host)".
std::string waiver_text(const AppliedWaiver& waiver, const Wording& words);

}  // namespace greta
