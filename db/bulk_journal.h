#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

namespace greta {

/// While it lives, the database has a rollback journal in place of its write-ahead log, if nobody
/// else has the file open: a large transaction then writes its new pages once and not twice, which
/// saves a sixth of the time, but readers have to wait for its end. Create and destroy outside
/// transactions.
class BulkJournal {
 public:
  explicit BulkJournal(SQLite::Database& db);
  ~BulkJournal();
  BulkJournal(const BulkJournal&) = delete;
  BulkJournal& operator=(const BulkJournal&) = delete;

 private:
  SQLite::Database& db_;
};

}  // namespace greta
