#include "cli/greta_db/program.h"

#include <sqlite3.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "cli/greta_db/commands.h"
#include "common/stop_signal.h"
#include "common/trouble.h"
#include "db/clickhouse/address.h"
#include "db/database.h"

namespace greta {
namespace {

constexpr const char* kProgram = "greta-db";

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
    case SQLITE_MISMATCH:
      return ": a parameter has a text where a whole number belongs";
    case SQLITE_FULL:
      return ": make room on the disk and try again; nothing half-written is kept";
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
      return ": check that the file and its folder exist and can be written";
    default:
      return "";
  }
}

/// Exit status after an error. git bisect run, which `gate --recorded` answers, takes any below 128
/// for an answer about the commit.
int error_status(int argc, char** argv) {
  constexpr int kEndsBisect = 128;
  const bool is_bisected = std::any_of(
      argv, argv + argc, [](const char* word) { return std::strcmp(word, "--recorded") == 0; });
  return is_bisected ? kEndsBisect : kExitError;
}

}  // namespace

int run_greta_db(int argc, char** argv) {
  Options options;
  CLI::App app;
  std::string trouble;
  std::vector<std::string> more;  // lines after it
  try {
    add_commands(app, options);
    LockWait::usual().on_long_wait = [](const std::string& message) {
      complain(kProgram, message);
    };
    app.parse(argc, argv);
    if (!clickhouse::is_address(options.database)) {
      check_database_name(options.database);
    } else if (!options.asks_fleet) {
      throw UsageError("this command works on a file: `greta-db --db FILE pull --from " +
                       options.database + " --run R` brings runs into one");
    }
    const StopSignals heeded;
    int status = options.action();
    options.out.flush();
    return status;
  } catch (const CLI::ParseError& error) {  // --help and --version are such, with status 0
    if (error.get_exit_code() == 0) return app.exit(error);
    const auto unknown = unknown_command(app);
    trouble = unknown ? unknown->what() : error.what();
    more = unknown && !unknown->lines.empty()
               ? unknown->lines
               : std::vector<std::string>{"See greta-db --help, greta-db COMMAND --help"};
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
  const int status = end_in_trouble(kProgram, trouble, "stopped; what was committed stays", more);
  return status == kExitError ? error_status(argc, argv) : status;
}

}  // namespace greta
