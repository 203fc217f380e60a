#include "db/database.h"

#include <malloc.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <system_error>

#include "common/stop_signal.h"
#include "db/judge.h"
#include "db/schema.h"
#include "db/transaction.h"

namespace greta {
namespace {

bool is_empty(SQLite::Database& db) {
  return db.execAndGet("SELECT count(*) FROM sqlite_schema").getInt64() == 0;
}

const char* kind_of(std::filesystem::file_type type) {
  using Type = std::filesystem::file_type;
  switch (type) {
    case Type::directory:
      return "a directory";
    case Type::fifo:
      return "a pipe";
    case Type::socket:
      return "a socket";
    default:
      return "a device";
  }
}

/// Throws unless it is a file, or nothing yet: to open a pipe would wait for its other end.
void check_kind(const std::filesystem::path& file) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  if (!std::filesystem::status_known(status) || !std::filesystem::exists(status) ||
      std::filesystem::is_regular_file(status)) {
    return;  // what cannot be looked at says so when it is opened
  }
  throw DatabaseError(file.string() + " is " + kind_of(status.type()) + ", not a database");
}

void check_path(const std::filesystem::path& file) {
  if (file.empty()) throw DatabaseError("the name of the database is empty: name a file");
  if (file.string().starts_with("file:")) {  // which SQLite may take for a URI
    throw DatabaseError(file.string() +
                        " is a URI: name the database by its path, ./file:... if need be");
  }
  check_kind(file);
}

/// Throws when the file of a connection holds something else. SQLite itself would take a short file
/// for an empty database and write over it. The file is read by SQLite's own descriptor: to close
/// another one would drop the locks that this process has on it.
void check_header(SQLite::Database& db, const std::filesystem::path& file) {
  sqlite3_file* opened = nullptr;
  sqlite3_file_control(db.getHandle(), "main", SQLITE_FCNTL_FILE_POINTER, &opened);
  if (opened == nullptr || opened->pMethods == nullptr) return;  // in memory
  sqlite3_int64 size = 0;
  char header[16] = {};
  if (opened->pMethods->xFileSize(opened, &size) != SQLITE_OK) return;  // whoever reads it is told
  const int result = opened->pMethods->xRead(opened, header, sizeof header, 0);
  if (result != SQLITE_OK && result != SQLITE_IOERR_SHORT_READ) return;
  // SQLite calls a file of one byte empty, too; what is not read is zeros here
  if (size == 0 && header[0] == '\0') return;
  if (std::string_view(header, sizeof header) !=
      std::string_view("SQLite format 3", sizeof header)) {
    throw DatabaseError(file.string() + " is not a database");
  }
}

void check_readable(const std::filesystem::path& file) {
  if (access(file.c_str(), R_OK) == 0) return;
  throw DatabaseError(file.string() + " cannot be read: " + std::generic_category().message(errno));
}

constexpr std::chrono::milliseconds kCheckpointPatience{500};
constexpr const char* kOnlyRead = "PRAGMA query_only = ON; PRAGMA temp_store = MEMORY";

/// Of several creators one makes the file a WAL database, and the others are told that it is busy
/// without SQLite waiting for them.
void use_wal(SQLite::Database& db, const LockWait& wait) {
  const auto deadline = std::chrono::steady_clock::now() + wait.patience();
  for (;; sqlite3_sleep(1)) {
    try {
      db.exec("PRAGMA journal_mode = WAL");
      return;
    } catch (const SQLite::Exception& error) {
      if (error.getErrorCode() != SQLITE_BUSY || std::chrono::steady_clock::now() > deadline ||
          (wait.ends_on_stop && stop_signal() != 0)) {
        throw;
      }
    }
  }
}

SQLite::Database connect(const std::filesystem::path& file, int flags, LockWait& wait) {
  SQLite::Database db(file.string(), flags | SQLite::OPEN_NOMUTEX);
  // Else a query that asks for one position would be planned anew whenever one is bound: it might
  // be that of a partial index.
  sqlite3_db_config(db.getHandle(), SQLITE_DBCONFIG_ENABLE_QPSG, 1, nullptr);
  wait.attend(db, file);
  return db;
}

/// False when others keep the log in use, or the checkpoint waited for them in vain.
bool empty_log(SQLite::Database& db) {
  const ShortPatience soon(kCheckpointPatience);
  SQLite::Statement checkpoint(db, "PRAGMA wal_checkpoint(TRUNCATE)");
  return checkpoint.executeStep() && checkpoint.getColumn(0).getInt() == 0;
}

/// Throws unless the file is greta's and of a version this build knows.
void check_identity(SQLite::Database& db, const std::filesystem::path& file) {
  if (pragma(db, "application_id") != kApplicationId) {
    throw DatabaseError(file.string() + " is a SQLite file, but not a greta database");
  }
  int64_t version = pragma(db, "user_version");
  if (version > kSchemaVersion) {
    throw DatabaseError(file.string() + " has schema version " + std::to_string(version) +
                        ", newer than this program's " + std::to_string(kSchemaVersion) +
                        ": use a newer greta-db");
  }
}

/// True if it failed for something that it may not write.
bool may_not_write(const SQLite::Exception& error) {
  return error.getErrorCode() == SQLITE_READONLY || error.getErrorCode() == SQLITE_CANTOPEN;
}

/// True if it failed for something that does not fit on the disk.
bool has_no_room(const SQLite::Exception& error) {
  return error.getErrorCode() == SQLITE_FULL || error.getErrorCode() == SQLITE_IOERR;
}

/// True if a journal of that name has what would be undone: of one that is done with, its beginning
/// is gone.
bool is_hot(const std::string& journal) {
  std::ifstream in(journal, std::ios::binary);
  char first = 0;
  return in.get(first) && first != 0;
}

/// Throws when the file by itself is not what was last written, and what lies beside it cannot be
/// used.
void refuse_half_of(const std::filesystem::path& file, const std::string& reason) {
  const std::string name = file.string();
  std::error_code absent;
  if (const auto size = std::filesystem::file_size(name + "-wal", absent); !absent && size > 0) {
    throw DatabaseError(name + "-wal holds what was written to " + name +
                        " last, and cannot be read where nothing may be written (" + reason +
                        "): copy all three files, " + name + ", " + name + "-wal and " + name +
                        "-shm, to a folder that can be written, and ask there");
  }
  if (is_hot(name + "-journal")) {
    throw DatabaseError(name + "-journal undoes what a write to " + name +
                        " left half done, and cannot where nothing may be written (" + reason +
                        "): copy both files to a folder that can be written, and ask there");
  }
}

/// A connection that only reads. SQLite keeps the index of a write-ahead log beside the file. Where
/// the disk has no room for that, it keeps the index in memory if it has the file to itself. Where
/// nothing may be written, it has to be told that nobody writes.
SQLite::Database connect_for_reading(const std::filesystem::path& file) {
  SQLite::Database db = connect(file, SQLite::OPEN_READONLY, LockWait::usual());
  try {
    pragma(db, "user_version");
  } catch (const SQLite::Exception& error) {
    if (has_no_room(error)) {
      db = connect(file, SQLite::OPEN_READWRITE, LockWait::usual());
      sqlite3_db_config(db.getHandle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
      db.exec("PRAGMA locking_mode = EXCLUSIVE");
      pragma(db, "user_version");
    } else {
      if (!may_not_write(error)) throw;
      refuse_half_of(file, error.what());
      const std::string uri = uri_of(std::filesystem::absolute(file)) + "?immutable=1";
      db = connect(uri, SQLite::OPEN_READONLY | SQLite::OPEN_URI, LockWait::usual());
    }
  }
  db.exec(kOnlyRead);
  return db;
}

/// Judges a database that cannot be written.
void judge_beside(SQLite::Database& db, const std::function<void(SQLite::Database&)>& prepare) {
  db.exec("PRAGMA query_only = OFF");
  hide_verdicts(db);
  judge_rest(db);
  if (prepare) prepare(db);
  db.exec("PRAGMA query_only = ON");
}

}  // namespace

std::string uri_of(const std::filesystem::path& file) {
  constexpr const char* kDigits = "0123456789ABCDEF";
  std::string uri = "file:";
  for (unsigned char c : file.string()) {
    if (std::isalnum(c) != 0 || c == '/' || c == '.' || c == '_' || c == '-') {
      uri += static_cast<char>(c);
    } else {
      uri.append({'%', kDigits[c >> 4], kDigits[c & 15]});
    }
  }
  return uri;
}

void check_database_name(const std::filesystem::path& file) {
  check_path(file);
  if (file == ":memory:") {
    throw DatabaseError(
        ":memory: is no file, and what is written there is gone at once: name a file");
  }
}

SQLite::Database open_unchanged(const std::filesystem::path& file) {
  check_path(file);
  if (!std::filesystem::exists(file)) {
    throw DatabaseError("no database at " + file.string() +
                        ": create it with `greta-db --db FILE ingest PATH...`");
  }
  check_readable(file);
  SQLite::Database as_it_is = connect(file, SQLite::OPEN_READONLY, LockWait::usual());
  check_header(as_it_is, file);
  // A writer that was killed may have left a journal, which only a writer can roll back.
  if (std::filesystem::exists(file.string() + "-journal")) {
    SQLite::Database repair = connect(file, SQLite::OPEN_READWRITE, LockWait::usual());
    repair.tryExec("SELECT count(*) FROM sqlite_schema");
  }
  SQLite::Database db = connect_for_reading(file);
  if (is_empty(db)) throw DatabaseError(file.string() + " is empty: nothing was ingested into it");
  check_identity(db, file);
  return db;
}

bool is_alone(SQLite::Database& db) {
  return db.execAndGet("PRAGMA locking_mode").getString() == "exclusive";
}

SQLite::Database open_temporary() {
  SQLite::Database db =
      connect("", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, LockWait::usual());
  db.exec(
      "PRAGMA page_size = 8192; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
      "PRAGMA cache_size = -65536; PRAGMA temp_store = FILE");
  create_schema(db);
  sqlite3_db_config(db.getHandle(), SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(db.getHandle(), SQLITE_DBCONFIG_ENABLE_FKEY, 0, nullptr);
  return db;
}

SQLite::Database open_for_reading(const std::filesystem::path& file,
                                  const std::function<void(SQLite::Database&)>& prepare) {
  {
    SQLite::Database db = open_unchanged(file);
    check_current(db, file);
    if (!prepare && unjudged_runs(db).empty()) return db;
  }  // closed, so that the writer is the last and leaves no log beside the file
  try {
    SQLite::Database writable = open_for_writing(file);
    judge_rest(writable);
    if (prepare) prepare(writable);
  } catch (const SQLite::Exception& error) {
    if (!may_not_write(error) && !has_no_room(error)) throw;
    SQLite::Database db = open_unchanged(file);
    judge_beside(db, prepare);
    return db;
  }
  return open_unchanged(file);
}

namespace {

/// Creates what is not there; leaves the definitions as they are.
SQLite::Database open_writable(const std::filesystem::path& file, LockWait& wait) {
  check_path(file);
  // A URI is for ATTACH: check_path lets none come here.
  SQLite::Database db =
      connect(file, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE | SQLite::OPEN_URI, wait);
  check_header(db, file);
  if (!is_empty(db)) check_identity(db, file);  // before anything is written to a file of others
  // 8 KiB pages hold some 75 rows each: a sixth faster to fill than 4 KiB, measured by
  // script/bench.
  db.exec("PRAGMA page_size = 8192");
  use_wal(db, wait);
  db.exec(
      "PRAGMA synchronous = NORMAL; PRAGMA cache_size = -65536; PRAGMA secure_delete = OFF;"
      "PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 4000");
  if (is_empty(db)) {
    in_transaction(db, [&db] {  // of two creators, the second finds the schema
      if (is_empty(db)) create_schema(db);
    });
  }
  check_identity(db, file);
  return db;
}

}  // namespace

SQLite::Database open_for_writing(const std::filesystem::path& file, LockWait& wait) {
  SQLite::Database db = open_writable(file, wait);
  migrate(db);
  return db;
}

SQLite::Database open_for_repair(const std::filesystem::path& file) {
  open_unchanged(file);  // which must be there
  SQLite::Database db = open_writable(file, LockWait::usual());
  bring_to_this_build(db);
  return db;
}

void check_in_place(SQLite::Database& db) {
  int has_moved = 0;
  const int code = sqlite3_file_control(db.getHandle(), "main", SQLITE_FCNTL_HAS_MOVED, &has_moved);
  if (code != SQLITE_OK || has_moved == 0) return;  // a database in memory has no file
  throw SQLite::Exception(db.getFilename() + " was deleted, moved or replaced while it was written",
                          SQLITE_READONLY_DBMOVED);
}

void set_up_sqlite() {
  // No mutex of connections, and no memory statistics, whose one mutex all allocations share.
  sqlite3_config(SQLITE_CONFIG_MULTITHREAD);
  sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  // The views that judge a run make tables of some 170 KB by the dozen. To give their pages back
  // to the system after each statement costs a fifth of judging a small run.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  // glibc consolidates its quickest lists for each large piece; a view is prepared a tenth faster
  // without these lists.
  mallopt(M_MXFAST, 0);
}

void make_durable(SQLite::Database& db) {
  if (empty_log(db)) return;
  // Readers keep the log in use. A commit syncs it, with all that was committed before; this one
  // changes nothing.
  db.exec("PRAGMA synchronous = FULL");
  db.exec("PRAGMA user_version = " + std::to_string(pragma(db, "user_version")));
  db.exec("PRAGMA synchronous = NORMAL");
}

}  // namespace greta
