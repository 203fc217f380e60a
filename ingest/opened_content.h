#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ingest/content/reader.h"
#include "ingest/content_kind.h"
#include "ingest/record/parser.h"
#include "ingest/record/stream.h"
#include "ingest/run_identity.h"

namespace greta {

/// Contents up to this size are read whole; documents and archive members must fit.
inline constexpr size_t kWholeBytes = 32u << 20;
/// What is looked at to tell what a content is.
inline constexpr size_t kHeadBytes = 64u << 10;

/// Every record of a content, still with the symbols of its parser.
struct ParsedRecords {
  std::vector<std::unique_ptr<RecordBatch>> batches;
  StreamEnd end;
  std::string shape;            ///< RecordParser::shape
  bool phase_conflict = false;  ///< RecordParser::phase_conflict
};

/// A content, taken in as far as the database is not needed: on another thread, before its turn.
struct OpenedContent {
  std::string bytes;  ///< all of it when is_whole, else what it starts with
  bool is_whole = false;
  ContentKind kind = ContentKind::kUnknown;
  RunIdentity identity;                  ///< as its path states it
  std::string sha256;                    ///< of the bytes, when is_whole
  std::optional<ParsedRecords> records;  ///< when they were asked for
};

enum class ParseAhead { kNo, kYes };

/// Reads the start of `reader`, which then stands behind it: kHeadBytes when `is_large`, else all
/// up to kWholeBytes. With kYes the lines of a whole content of records, but a large one, are
/// parsed. `identity_path` as identify_run takes it.
OpenedContent open_start(ContentReader& reader, const std::string& identity_path, bool is_large,
                         ParseAhead parse);

/// What the path of a record file says to its parser.
RecordSource record_source(const RunIdentity& identity, const std::string& identity_path);

/// Reads `content.bytes` and then, unless they are whole, the rest of `reader`; damage is that of
/// `reader`. Borrows both.
class OpenedReader : public ContentReader {
 public:
  OpenedReader(const OpenedContent& content, ContentReader& rest);
  size_t read(char* buffer, size_t size_bytes) override;
  std::optional<size_t> bytes_left() const override;

 private:
  std::string_view prefix_;
  ContentReader& rest_;
  bool is_whole_;
};

}  // namespace greta
