#pragma once
#include <string_view>
#include <vector>

#include "engine/gguf/file.h"

namespace greta {

/// Looks at every key of llama.* and tokenizer.*: those that ask for a computation that greta does
/// not do are refused by name (GgufError), so that none is passed over in silence. Returns the keys
/// that greta does not know, borrowed from the file: what they ask for is not done.
std::vector<std::string_view> check_metadata(const GgufFile& file);

/// What positions are divided by before RoPE, as llama.cpp reads it: linear scaling is meant when
/// no type is given, and the factor has an older name. 1: none. Throws GgufError for another type.
double rope_scale(const GgufFile& file);

}  // namespace greta
