#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "ingest/table.h"

namespace greta {

/// One row of a report's verdict table: what it claims about one pair.
struct ReportPair {
  enum Status { kMatch, kDrift, kMissing };

  int64_t line = 0;
  std::string prompt;
  std::optional<int64_t> token_id, pos_id;
  std::optional<int64_t> logical_tok_idx;  ///< TOK: it counts tokens, it is not a vocabulary id
  std::optional<int64_t> layer;
  std::string tensor;  ///< "" when the table has no such column or cell
  Status status = kDrift;
  std::string cause;       ///< FIRST_FAIL as written; "" when absent
  std::string root_cause;  ///< ROOT_CAUSE as written; "" when absent
  std::string details;
  std::string prefill_hash_prefix, decode_hash_prefix;  ///< decimal digits before the "..."
};

/// Which columns of a table judge pairs; kNone where it has none.
struct ReportColumns {
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();
  size_t prompt = kNone, token_id = kNone, pos_id = kNone, tok = kNone, layer = kNone;
  size_t tensor = kNone, first_fail = kNone, root_cause = kNone, details = kNone;
};

/// nullopt unless the table has PROMPT and FIRST_FAIL columns, in any case, and no column twice: of
/// two that differ nobody knows which judges.
std::optional<ReportColumns> report_columns(const Table& table);

/// What a row of such a table claims, if it does; see report_pairs.
std::optional<ReportPair> report_pair(const Table& table, const TableRow& row,
                                      const ReportColumns& columns);

/// nullopt unless the table has PROMPT and FIRST_FAIL columns, in any case. Absent is "", "-",
/// "None", "null" or "N/A". TRACE_OFFSET in FIRST_FAIL or ROOT_CAUSE is kMissing, any other cause
/// kDrift. Neither present is kMatch, but only if the row names a tensor, reaches the FIRST_FAIL
/// column and has no detail that says mismatch. A row without a prompt or with TBD in FIRST_FAIL,
/// and one that claims nothing, is not a pair.
std::optional<std::vector<ReportPair>> report_pairs(const Table& table);

}  // namespace greta
