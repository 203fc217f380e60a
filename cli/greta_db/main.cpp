// greta-db: asks a warehouse of traces where prefill and decode part ways.
#include <csignal>

#include "cli/greta_db/program.h"
#include "db/database.h"

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit is an error like a full disk
  greta::set_up_sqlite();
  return greta::run_greta_db(argc, argv);
}
