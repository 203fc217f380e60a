#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/show/texts.h"
#include "cli/warehouse/sql_query.h"

namespace greta {

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

/// Those that waive something of the run, in order of their ids.
std::vector<AppliedWaiver> applied_waivers(QueryPool& statements, int64_t run_id);

/// "attn_out of layer 3", "attn_out": where a waiver holds.
std::string waived_place(const AppliedWaiver& waiver, const Wording& words);

/// "2 pairs of attn_out of layer 3 until 2026-12-31: reason (waiver 4, by me@host)".
std::string waiver_text(const AppliedWaiver& waiver, const Wording& words);

}  // namespace greta
