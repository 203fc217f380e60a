#pragma once
#include <string>
#include <string_view>

namespace greta {

/// What a content is read as.
enum class ContentKind { kRecords, kJson, kTable, kDocument, kLog, kUnknown };

/// By the extension of its path where that says it, else by its first lines.
ContentKind classify(const std::string& path, std::string_view head);

/// Whether content of no known kind may hold anything, a trace too: name of the compression or
/// archive that it begins like, "" when it does not.
std::string packing_of(std::string_view head);

/// ".jsonl" of "a/b.JSONL.gz"; "" when there is none.
std::string lower_extension(const std::string& path);

/// "b" of "a/b.jsonl.gz".
std::string file_stem(const std::string& path);

}  // namespace greta
