#pragma once
#include "cli/report/section.h"

namespace greta {

/// Writes how K, V and the attention scores of a run compare; nothing, and returns false, when no
/// row of kv_alignment tells. Throws SQLite::Exception.
bool write_kv_sections(const RunSection& run);

}  // namespace greta
