#include "cli/greta_infer/program.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "cli/greta_infer/commands.h"
#include "common/exit_status.h"
#include "common/utf8.h"

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
  try {
    add_infer_commands(app, infer);
    app.parse(argc, argv);
    return infer.action();
  } catch (const CLI::ParseError& error) {  // --help and --version are such, with status 0
    if (error.get_exit_code() == 0) return app.exit(error);
    complain(error.what());
    std::fputs("See greta-infer --help, greta-infer COMMAND --help\n", stderr);
  } catch (const SQLite::Exception& error) {
    complain(std::string("database: ") + error.what());
  } catch (const std::bad_alloc&) {
    complain("out of memory; a smaller --max-seq-len or --batch needs less");
  } catch (const std::exception& error) {
    complain(error.what());
  }
  return kExitError;
}

}  // namespace greta
