#pragma once
#include <string>
#include <string_view>

namespace greta {

/// What a content is read as.
enum class ContentKind {
  kRecords,
  kJson,
  kTable,
  kDocument,  ///< a report, and any other text
  kLog,
  kForeign,   ///< of another tool: foreign_kind
  kDatabase,  ///< of SQLite: nothing to ingest
  kArchive,   ///< of files: a tar
  kUnknown
};

/// The shapes that are read, one a line, as what to do about a file of none.
std::string shapes_that_are_read();

/// Kind of a file that is of no other tool, by its first bytes where they say it, else by the
/// extension of its path, else by its first lines.
ContentKind classify(const std::string& path, std::string_view head);

/// Why a content that may well hold something is not read whatever it is called: it is packed in a
/// way that greta does not unpack, or a text in UTF-16. "" where that is not so.
std::string why_unread(std::string_view head);

}  // namespace greta
