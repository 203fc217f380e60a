// greta-db: asks a warehouse of traces where prefill and decode part ways.
#include <sqlite3.h>

#include <csignal>

#include "cli/greta_db/program.h"

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit is an error like a full disk
  // One thread talks to SQLite here (ingest parses on another): no mutex, no memory statistics.
  sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
  sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  return greta::run_greta_db(argc, argv);
}
