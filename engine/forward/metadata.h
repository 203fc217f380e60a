#pragma once
#include <string_view>
#include <vector>

#include "engine/gguf/architecture.h"
#include "engine/gguf/file.h"

// Refuses models whose metadata asks for a computation that greta does not do.

namespace greta {

/// Looks at every key of the architecture (llama.*) and of tokenizer.*: those that ask for a
/// computation that greta does not do are refused by name (GgufError), so that none is passed over
/// in silence. Returns the keys that greta does not know, borrowed from the file: what they ask for
/// is not done.
std::vector<std::string_view> check_metadata(const GgufFile& file,
                                             const Architecture& architecture);

}  // namespace greta
