#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace greta::record {

/// The phase that a writer means, as greta spells it: prefill_last, prefill, decode0, decode or a
/// further one of either side ("prefill_chunk"). Case does not matter, nor what stands between the
/// words (Prefill-Last, "decode 0"); decode1 and later are decode. Nothing when the text names
/// neither side: rows of it would never be paired.
std::optional<std::string> phase_meant(std::string_view text);

}  // namespace greta::record
