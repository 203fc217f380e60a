#pragma once
#include <string>

namespace greta {

/// ".jsonl" of "a/b.JSONL.gz"; "" when there is none.
std::string lower_extension(const std::string& path);

/// "b" of "a/b.jsonl.gz".
std::string file_stem(const std::string& path);

}  // namespace greta
