#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ingest/content/reader.h"
#include "ingest/foreign/bytes.h"
#include "ingest/foreign/name_rules.h"
#include "ingest/opened_content.h"
#include "ingest/run_identity.h"
#include "ingest/session.h"
#include "ingest/source_content.h"

namespace greta {

/// A smaller content is parsed faster than a thread starts, and shares its transaction.
inline constexpr int64_t kWorthAThreadBytes = 16 << 10;

/// Reason of the warning that keeps a text of which nothing is read; view run_verdict counts it.
inline constexpr const char* kTextNotJudged = "a text, stored and not judged";

/// One content to ingest: a file or an archive member.
struct Content {
  std::string file;           ///< as findings name it: path, or archive!member
  std::string identity_path;  ///< what its run is told from
  std::string raw_sha256;     ///< of the stored bytes; "" not computed or a member
  int64_t raw_bytes = -1;     ///< of a loose file
};

/// Takes one content after the other into the database, whole or not at all: tells its run, whether
/// it is known, and writes what it states. Borrows the session.
class ContentImporter {
 public:
  explicit ContentImporter(IngestSession& session) : session_(session) {}

  /// False when nothing was taken, for the archive that it is a member of breaks in it.
  bool take(const Content& content, ContentReader& reader, OpenedContent& opened);

 private:
  void store_content(Content content, ContentReader& reader, OpenedContent& opened);
  void store_or_note(const Content& content, ContentReader& reader, OpenedContent& opened);
  void note_text(const Content& content, std::string_view bytes);
  Use store_source(Content content, ContentReader& reader, OpenedContent& opened,
                   std::optional<FileBytes>& file);
  Use store_text(const Content& content, ContentReader& reader, OpenedContent& opened);
  Use store_foreign(const Content& content, ContentReader& reader, const OpenedContent& opened,
                    Bytes& bytes);
  Use store_records(const Content& content, ContentReader& reader, OpenedContent& opened);
  ParsedRecords stream_into(SourceContent& source, const Content& content, ContentReader& reader,
                            const OpenedContent& opened);

  bool identify(const Content& content, OpenedContent& opened);
  bool identify_by(const RunEvent& start, const Content& content, const std::string& sha256);
  const NameRules& name_rules();
  void set_trouble(const std::string& damage, bool is_empty, bool is_compressed);
  void take_known(int64_t source_id, const Content& content);
  void add_location(int64_t source_id, const Content& content, const std::string& raw_sha256);

  IngestSession& session_;

  std::optional<NameRules> name_rules_;

  // of the content at hand
  RunIdentity identity_;
  bool has_identity_ = true;  // by path or document, not by content
  std::string trouble_;       // damage, or that it is empty
  bool trouble_is_error_ = false;
  std::string change_;  // ContentReader::change
  int64_t run_id_ = 0;
};

}  // namespace greta
