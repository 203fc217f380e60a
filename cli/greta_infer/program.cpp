#include "cli/greta_infer/program.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "cli/greta_infer/commands.h"
#include "common/exit_status.h"
#include "common/stop_signal.h"
#include "common/utf8.h"
#include "db/lock_wait.h"

namespace greta {
namespace {

/// Messages hold names from files and models: none reaches the terminal as it is.
void complain(const std::string& message) {
  std::fprintf(stderr, "greta-infer: %s\n", utf8::printable(message).c_str());
}

}  // namespace

int run_greta_infer(int argc, char** argv) {
  Infer infer;
  CLI::App app;
  std::string trouble;
  try {
    add_infer_commands(app, infer);
    LockWait::usual().on_long_wait = complain;
    app.parse(argc, argv);
    return infer.action();
  } catch (const CLI::ParseError& error) {  // --help and --version are such, with status 0
    if (error.get_exit_code() == 0) return app.exit(error);
    complain(error.what());
    std::fputs("See greta-infer --help, greta-infer COMMAND --help\n", stderr);
    return kExitError;
  } catch (const SQLite::Exception& error) {
    trouble = std::string("database: ") + error.what();
  } catch (const std::bad_alloc&) {
    trouble = "out of memory; a smaller --max-seq-len or --batch needs less";
  } catch (const std::exception& error) {
    trouble = error.what();
  }
  const int signal = stop_signal();  // then what went wrong is that
  complain(signal == 0 ? trouble : "stopped; what was written stays, as an incomplete run");
  return signal == 0 ? kExitError : 128 + signal;
}

}  // namespace greta
