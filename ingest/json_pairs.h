#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "ingest/report_pairs.h"

namespace greta {

/// What the objects of a JSON text claim about pairs: those that print a hash of prefill and one of
/// decode, {"tensor":"attn_out","prefill_hash":1,"decode_hash":2,"status":"none"} or
/// {"prefill":{"hash":1},"decode":{"hash":2}}, read like the row of a table with such columns
/// (report_pair), in order. `first_line` is the line that the text begins on; a pair is of the line
/// that its object begins on. Any bytes are accepted: text that is no JSON object claims nothing.
std::vector<ReportPair> json_pairs(std::string_view text, int64_t first_line = 1);

}  // namespace greta
