#include "cli/greta_db/program.h"

#include <sqlite3.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/greta_db/commands.h"
#include "common/stop_signal.h"
#include "common/utf8.h"
#include "db/database.h"

namespace greta {
namespace {

/// Messages hold names from files and databases: none reaches the terminal as it is.
void complain(const std::string& message, const std::vector<std::string>& lines = {}) {
  std::fprintf(stderr, "greta-db: %s\n", utf8::printable(message).c_str());
  for (const std::string& line : lines) std::fprintf(stderr, "%s\n", utf8::printable(line).c_str());
}

/// What to do about an error that SQLite reports, beginning with a separator.
std::string advice(const SQLite::Exception& error, const std::string& file) {
  switch (error.getErrorCode()) {
    case SQLITE_BUSY:
      return "; waited " + duration_text(LockWait::usual().patience()) + " for " +
             lock_holder(file) + ": end that, or wait longer (--wait)";
    case SQLITE_CORRUPT:
      return ": run `greta-db check`, and restore a copy if that finds damage";
    case SQLITE_NOTADB:
      return ": it is no database; give another file with --db";
    case SQLITE_FULL:
      return ": make room on the disk and try again; nothing half-written is kept";
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
      return ": check that the file and its folder exist and can be written";
    default:
      return "";
  }
}

}  // namespace

int run_greta_db(int argc, char** argv) {
  Options options;
  CLI::App app;
  std::string trouble;
  std::vector<std::string> more;  // lines after it
  try {
    add_commands(app, options);
    LockWait::usual().on_long_wait = [](const std::string& message) { complain(message); };
    app.parse(argc, argv);
    check_database_name(options.database);
    const StopSignals heeded;
    int status = options.action();
    options.out.flush();
    return status;
  } catch (const CLI::ParseError& error) {  // --help and --version are such, with status 0
    if (error.get_exit_code() == 0) return app.exit(error);
    trouble = error.what();
    more = {"See greta-db --help, greta-db COMMAND --help"};
  } catch (const OutputClosed&) {
    return 128 + SIGPIPE;  // as if the signal had not been ignored
  } catch (const SQLite::Exception& error) {
    trouble = options.database + ": " + error.what() + advice(error, options.database);
  } catch (const UsageError& error) {
    trouble = error.what();
    more = error.lines;
  } catch (const std::exception& error) {
    trouble = error.what();
  }
  try {
    options.out.flush();
  } catch (const std::exception&) {
    // The first error is reported; this one says no more.
  }
  const int signal = stop_signal();  // then what went wrong is that
  if (signal == 0) {
    complain(trouble, more);
  } else {
    complain("stopped; what was committed stays");
  }
  return signal == 0 ? kExitError : 128 + signal;
}

}  // namespace greta
