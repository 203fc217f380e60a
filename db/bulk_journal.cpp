#include "db/bulk_journal.h"

#include "db/database.h"

namespace greta {

BulkJournal::BulkJournal(SQLite::Database& db) : db_(db) {
  db_.setBusyTimeout(0);  // somebody reads it: stay as it is
  db_.tryExec("PRAGMA journal_mode = DELETE");
  db_.setBusyTimeout(kBusyTimeoutMs);
}

BulkJournal::~BulkJournal() {
  // If somebody has begun to read it, the next writer makes the change.
  db_.tryExec("PRAGMA busy_timeout = 0; PRAGMA journal_mode = WAL");
  db_.tryExec(("PRAGMA busy_timeout = " + std::to_string(kBusyTimeoutMs)).c_str());
}

}  // namespace greta
