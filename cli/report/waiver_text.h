#pragma once
#include <string>

#include "cli/report/texts.h"
#include "cli/warehouse/waivers.h"

namespace greta {

/// "attn_out of layer 3", "attn_out": where a waiver holds, safe to print.
std::string waived_place(const AppliedWaiver& waiver, const Wording& words);

/// "2 pairs of attn_out of layer 3 until 2026-12-31: reason (waiver 4, by me@host)", safe to print.
std::string waiver_text(const AppliedWaiver& waiver, const Wording& words);

}  // namespace greta
