#include "db/bulk_journal.h"

#include "db/lock_wait.h"

namespace greta {

BulkJournal::BulkJournal(SQLite::Database& db) : db_(db) {
  const ShortPatience none(std::chrono::milliseconds(0));  // somebody reads it: stay as it is
  db_.tryExec("PRAGMA journal_mode = DELETE");
}

BulkJournal::~BulkJournal() {
  const ShortPatience none(std::chrono::milliseconds(0));  // begun to read: the next writer does it
  db_.tryExec("PRAGMA journal_mode = WAL");
}

}  // namespace greta
