#include "db/in_place.h"

#include <sqlite3.h>

#include <string>

namespace greta {

void check_in_place(SQLite::Database& db) {
  int has_moved = 0;
  const int code = sqlite3_file_control(db.getHandle(), "main", SQLITE_FCNTL_HAS_MOVED, &has_moved);
  if (code != SQLITE_OK || has_moved == 0) return;  // a database in memory has no file
  throw SQLite::Exception(db.getFilename() + " was deleted, moved or replaced while it was written",
                          SQLITE_READONLY_DBMOVED);
}

}  // namespace greta
