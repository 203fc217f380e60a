// greta-db: asks a warehouse of traces where prefill and decode part ways.
#include <malloc.h>
#include <sqlite3.h>

#include <csignal>

#include "cli/greta_db/program.h"

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit is an error like a full disk
  // No two threads share a connection at a time: no mutex of theirs, and no memory statistics.
  sqlite3_config(SQLITE_CONFIG_MULTITHREAD);
  sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  // The views that judge a run make tables of some 170 KB by the dozen. Given back to the system
  // after each statement, their pages cost a fifth of what judging a small run does.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  return greta::run_greta_db(argc, argv);
}
