#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ingest/content/reader.h"
#include "ingest/content_kind.h"
#include "ingest/foreign/bytes.h"
#include "ingest/foreign/files.h"
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

/// A file or an archive member, taken in as far as the database is not needed: on another thread,
/// before its turn.
struct OpenedContent {
  std::string file;           ///< as findings name it: path, or archive!member
  std::string identity_path;  ///< what its run is told from
  std::unique_ptr<ContentReader> reader;
  std::string bytes;  ///< all of it when is_whole, else what it starts with
  bool is_whole = false;
  ContentKind kind = ContentKind::kUnknown;
  ForeignKind foreign = ForeignKind::kNone;  ///< when kind is kForeign
  RunIdentity identity;                      ///< as its path states it, until its bytes tell more
  /// Its path, the user or a title names the run: it has other contents, too.
  bool is_of_named_run = true;
  std::string sha256;                    ///< of the bytes, when is_whole
  std::string raw_sha256;                ///< of the stored bytes; "" not computed or a member
  std::unique_ptr<FileBytes> pieces;     ///< of a file that is read piece by piece
  std::optional<ParsedRecords> records;  ///< when they were asked for

  /// Stored bytes of a loose file; -1 of a member.
  int64_t raw_bytes() const { return reader->stored_bytes().value_or(-1); }
  bool is_empty() const { return is_whole && bytes.empty(); }
  /// Damage, or that it is empty; "" when nothing is wrong. Complete once all of it was read.
  std::string trouble() const;
};

enum class ParseAhead { kNo, kYes };

/// Reads the start of a content: kHeadBytes of an archive and of a file that is larger than
/// kWholeBytes, else all up to there; `reader` then stands behind it. With kYes the lines of a
/// whole content of records, but a large one, are parsed. `identity_path` as identify_run takes it;
/// `run` names the run that all contents belong to, "" where their paths do.
OpenedContent open_start(std::unique_ptr<ContentReader> reader, std::string file,
                         std::string identity_path, const std::string& run, ParseAhead parse);

/// What the path of a record file says to its parser.
RecordSource record_source(const OpenedContent& content);

/// Reads `content.bytes` and then, unless they are whole, the rest of its reader, whose damage it
/// has. Borrows the content.
class OpenedReader : public ContentReader {
 public:
  explicit OpenedReader(const OpenedContent& content);
  size_t read(char* buffer, size_t size_bytes) override;
  std::optional<size_t> bytes_left() const override;

 private:
  std::string_view prefix_;
  ContentReader& rest_;
  bool is_whole_;
};

}  // namespace greta
