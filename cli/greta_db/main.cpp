// greta-db: asks a warehouse of traces where prefill and decode part ways.
#include <sqlite3.h>

#include "cli/greta_db/program.h"

int main(int argc, char** argv) {
  // One thread talks to SQLite here (ingest parses on another): no mutex, no memory statistics.
  sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
  sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  return greta::run_greta_db(argc, argv);
}
