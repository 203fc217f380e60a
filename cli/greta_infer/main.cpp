// greta-infer: runs language models and traces what prefill and decode compute.
#include <csignal>

#include "cli/greta_infer/program.h"
#include "db/database.h"

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit is an error like a full disk
  greta::set_up_sqlite();
  return greta::run_greta_infer(argc, argv);
}
