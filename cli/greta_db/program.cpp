#include "cli/greta_db/program.h"

#include <sqlite3.h>

#include <csignal>
#include <cstdio>
#include <string>

#include "cli/greta_db/commands.h"
#include "db/database.h"

namespace greta {
namespace {

void complain(const std::string& message) {
  std::fprintf(stderr, "greta-db: %s\n", message.c_str());
}

/// What to do about an error that SQLite reports, beginning with a separator.
std::string advice(const SQLite::Exception& error) {
  switch (error.getErrorCode()) {
    case SQLITE_BUSY:
      return ": another program is writing to it; try again when it is done";
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
  try {
    add_commands(app, options);
    app.parse(argc, argv);
    check_database_name(options.database);
    int status = options.action();
    options.out.flush();
    return status;
  } catch (const CLI::ParseError& error) {  // --help and --version are such, with status 0
    if (error.get_exit_code() == 0) return app.exit(error);
    complain(std::string(error.what()) + "\nSee greta-db --help, greta-db COMMAND --help");
  } catch (const OutputClosed&) {
    return 128 + SIGPIPE;  // as if the signal had not been ignored
  } catch (const SQLite::Exception& error) {
    complain(options.database + ": " + error.what() + advice(error));
  } catch (const std::exception& error) {
    complain(error.what());
  }
  try {
    options.out.flush();
  } catch (const std::exception&) {
    // The first error was reported; this one says no more.
  }
  return kExitError;
}

}  // namespace greta
