#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ingest/table.h"

namespace greta {

/// True if two hashes that a document prints are the same value: decimal (signed ones by their 64
/// bits) or hexadecimal ("0x", or with letters), padded, or with separators of thousands. What is
/// neither is compared as text. Nothing when one is absent, or cut ("414...") and no digit that is
/// there differs.
std::optional<bool> same_printed_hash(std::string_view a, std::string_view b);

/// "", "-", "none", "null", "n/a" or "tbd", in any case: how tables say that there is no value.
bool is_absent_cell(std::string_view cell);

/// One row of a report's verdict table: what it claims about one pair.
struct ReportPair {
  enum Status { kMatch, kDrift, kMissing };

  int64_t line = 0;
  std::string prompt;  ///< "" when nothing of the row names one
  std::optional<int64_t> token_id, pos_id;
  std::optional<int64_t> layer;
  std::string tensor;  ///< "" when the table has no such column or cell
  Status status = kDrift;
  bool only_hashes_differ = false;  ///< kDrift, and the row itself does not say that it fails
  std::string cause;                ///< FIRST_FAIL as written; "" when absent
  std::string root_cause;           ///< ROOT_CAUSE as written; "" when absent
  std::string details;              ///< as written; else the hashes that differ
};

/// Which columns of a table judge pairs; kNone where it has none.
struct ReportColumns {
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();
  size_t prompt = kNone, token_id = kNone, pos_id = kNone, layer = kNone;
  size_t tensor = kNone, first_fail = kNone, root_cause = kNone, details = kNone;
  std::vector<size_t> statuses, mismatches;       ///< "true" matches in one, fails in the other
  std::vector<std::pair<size_t, size_t>> hashes;  ///< prefill's and decode's of one thing
  bool failures_only = false;                     ///< see status_columns
};

/// nullopt unless the table has PROMPT and FIRST_FAIL columns, or a hash of prefill and one of
/// decode ("prefill_hash", "Hash (decode)"), in any case, and no column twice: of two that differ
/// nobody knows which judges.
std::optional<ReportColumns> report_columns(const Table& table);

/// Of a table that report_columns does not take, with TENSOR and STATUS columns: it lists failures
/// and doubts, and its other rows are no pairs.
std::optional<ReportColumns> status_columns(const Table& table);

/// What a row of such a table claims, if it does; see report_pairs.
std::optional<ReportPair> report_pair(const Table& table, const TableRow& row,
                                      const ReportColumns& columns);

/// The pairs of a table with report_columns. Absent is "", "-", "None", "null", "N/A" or "TBD".
/// TRACE_OFFSET in FIRST_FAIL or ROOT_CAUSE, or as status MISSING or what leaves a doubt ("MATCH?",
/// "skipped"), is kMissing. kDrift is any other
/// cause, a status or a detail that says so, and two hashes that differ whatever the row says
/// (same_printed_hash). kMatch is a row that names a tensor, reaches the FIRST_FAIL column and says
/// nothing there, or that says that it matches, or whose hashes are equal. A row with TBD in PROMPT
/// or FIRST_FAIL is a template, and no match; what claims nothing is not a pair.
std::optional<std::vector<ReportPair>> report_pairs(const Table& table);

}  // namespace greta
