#pragma once
#include <cstdint>
#include <optional>

#include "ingest/foreign/name_rules.h"
#include "ingest/opened_content.h"
#include "ingest/session.h"
#include "ingest/source_content.h"

namespace greta {

/// A smaller content is parsed faster than a thread starts, and shares its transaction.
inline constexpr int64_t kWorthAThreadBytes = 16 << 10;

/// Reason of the warning that keeps a text of which nothing is read; view run_verdict counts it.
inline constexpr const char* kTextNotJudged = "a text, stored and not judged";

/// Takes one content after the other into the database, whole or not at all: tells its run, whether
/// it is known, and writes what it states. Borrows the session.
class ContentImporter {
 public:
  explicit ContentImporter(IngestSession& session) : session_(session) {}

  /// False when nothing was taken, for the archive that it is a member of breaks in it.
  bool take(OpenedContent& content);

 private:
  void store_content(OpenedContent& content);
  bool tell_run(OpenedContent& content);
  bool is_known(const OpenedContent& content);
  void store_or_note(OpenedContent& content);
  void note_text(const OpenedContent& content);
  Use store_source(OpenedContent& content);
  Use store_document(OpenedContent& content, int64_t run_id);
  Use store_records(OpenedContent& content, int64_t run_id);
  void read_text(OpenedContent& content, SourceContent& source);
  int64_t read_foreign_rows(OpenedContent& content, SourceContent& source);
  ParsedRecords stream_into(SourceContent& source, const OpenedContent& content);
  void take_known(int64_t source_id, const OpenedContent& content);
  void add_location(int64_t source_id, const OpenedContent& content);

  IngestSession& session_;
  std::optional<NameRules> name_rules_;
};

}  // namespace greta
