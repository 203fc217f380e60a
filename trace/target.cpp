#include "trace/target.h"

#include <pthread.h>

#include <atomic>
#include <utility>

#include "db/database.h"
#include "engine/record/run_store.h"
#include "trace/arguments.h"

namespace greta::trace {
namespace {

// SQLite's memory of which locks a process holds goes through fork(), and the locks do not: a
// database that is opened in such a child can be damaged.
std::atomic<int> open_databases = 0;
std::atomic<bool> forked_amid_databases = false;
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] {
  if (open_databases > 0) forked_amid_databases = true;
});

/// Any bytes that the system takes.
std::string path_of(const char* path) {
  if (path == nullptr || *path == '\0') throw BadArgument("path is missing");
  return path;
}

LineFile open_lines_at(const std::string& path) {
  return path == "-" ? LineFile::standard_output() : LineFile(path, LineFile::Existing::kRefuse);
}

}  // namespace

Target::Target(const char* path, greta_kind kind)
    : database_(kind == GRETA_DATABASE ? path_of(path) : "") {
  if (kind == GRETA_DATABASE) {
    if (forked_amid_databases) {
      throw Refused(GRETA_ERROR_STATE,
                    "this process was forked while a database was open for traces, and SQLite "
                    "cannot open one in it: start it by exec (in Python: spawn), or write JSON "
                    "lines");
    }
    check_database_name(database_);
    open_for_writing(database_);
    ++open_databases;
  } else if (kind == GRETA_JSONL) {
    lines_.emplace(open_lines_at(path_of(path)));
  } else {
    throw BadArgument("kind " + std::to_string(static_cast<int>(kind)) + " is no greta_kind");
  }
}

Target::~Target() {
  if (!database_.empty()) --open_databases;
}

std::shared_ptr<Run> Target::begin_run(const greta_run_info& info) {
  const RunRecord record = run_record_of(info);
  base_run_name(record);  // throws before anything is written
  if (!database_.empty()) {
    return std::make_shared<Run>(store_in_database(database_, record), info.sample_values);
  }
  const std::lock_guard lock(mutex_);
  if (!lines_) throw Refused(GRETA_ERROR_STATE, "a file of JSON lines has one run");
  return std::make_shared<Run>(store_in_lines(*std::exchange(lines_, std::nullopt), record),
                               info.sample_values);
}

}  // namespace greta::trace
