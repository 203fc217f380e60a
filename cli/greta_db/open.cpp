#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "cli/greta_db/canned.h"
#include "cli/greta_db/commands.h"
#include "cli/show/report.h"
#include "cli/warehouse/sql_query.h"
#include "common/child_process.h"
#include "common/environment.h"
#include "common/utf8.h"
#include "db/database.h"

namespace greta {
namespace {

struct OpenArguments {
  std::string run, language = "en";
  Repeats repeats = Repeats::kAll;
  bool print = false;
};

/// The first row of the canned query worst_recent.
Run worst_recent_run(SQLite::Database& db) {
  Query query(db, canned_query("worst_recent").sql);
  if (!query.step()) throw UsageError("there is no run to show: `greta-db ingest` brings some");
  return {query.integer(7), query.text(0)};
}

/// A new file that nobody else can read, among the temporary ones.
class TemporaryPage {
 public:
  TemporaryPage() {
    path_ = environment_variable("TMPDIR");
    if (path_.empty()) path_ = "/tmp";
    path_ += "/greta-XXXXXX.html";
    fd_ = mkostemps(path_.data(), 5, O_CLOEXEC);
    if (fd_ < 0) fail();
  }
  ~TemporaryPage() {
    if (fd_ < 0) return;
    close(fd_);
    unlink(path_.c_str());
  }
  TemporaryPage(const TemporaryPage&) = delete;
  TemporaryPage& operator=(const TemporaryPage&) = delete;

  void write(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::write(fd_, text.data(), text.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail();
      text.remove_prefix(static_cast<size_t>(n));
    }
  }
  /// It stays. Returns where it is.
  const std::string& keep() {
    if (close(std::exchange(fd_, -1)) != 0) {
      const int error = errno;
      unlink(path_.c_str());
      errno = error;
      fail();
    }
    return path_;
  }

 private:
  [[noreturn]] void fail() const { throw std::system_error(errno, std::generic_category(), path_); }

  std::string path_;
  int fd_ = -1;
};

/// True if a browser was asked to show it.
bool show(const std::string& path) {
  if (environment_variable("DISPLAY").empty() && environment_variable("WAYLAND_DISPLAY").empty())
    return false;
  try {
    start_apart({.command = {"xdg-open", path}});
    return true;
  } catch (const std::system_error&) {
    return false;  // there is none
  }
}

int open_page(Options& options, const OpenArguments& arguments) {
  const Language language = language_named(arguments.language);
  SQLite::Database db = open_for_reading(options.database);
  db.exec("BEGIN");  // one state of the database for all queries
  const std::vector<Run> runs = arguments.run.empty()
                                    ? std::vector<Run>{worst_recent_run(db)}
                                    : resolve_runs(db, arguments.run, arguments.repeats);
  TemporaryPage page;
  QueryPool statements(db);
  write_run_page(statements, runs, language, [&](std::string_view text) { page.write(text); });
  const std::string path = page.keep();
  if (arguments.run.empty()) {
    std::fprintf(stderr, "greta-db: run %s\n", utf8::printable(runs.front().name).c_str());
  }
  if (!arguments.print && show(path)) {
    std::fprintf(stderr, "greta-db: a browser is asked to show %s\n",
                 utf8::printable(path).c_str());
    return kExitDone;
  }
  options.out.write(utf8::printable(path) + "\n");
  return kExitDone;
}

}  // namespace

void add_open_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "open", "Show the page of a run in a browser: by default the worst of the newest day's runs");
  auto arguments = std::make_shared<OpenArguments>();
  add_run_option(*command, arguments->run, arguments->repeats);
  command->add_flag("--print", arguments->print, "Print where the page is; open no browser");
  command->add_option("--lang", arguments->language, "Language of the page: en (default) or es")
      ->check(CLI::IsMember({"en", "es"}))
      ->option_text("LANG");
  command->footer(
      "Without --run: of the runs of the newest date, the first that fails, else one without a "
      "verdict,"
      "\nelse any; one with a fault on purpose only where there is no other. `greta-db query "
      "worst_recent`"
      "\nlists them."
      "\nThe page is a temporary file that only you can read. Without a display, or without "
      "xdg-open,"
      "\nits path is printed.");
  command->callback([&options, arguments] {
    options.action = [&options, arguments] { return open_page(options, *arguments); };
  });
}

}  // namespace greta
