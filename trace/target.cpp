#include "trace/target.h"

#include <algorithm>
#include <utility>

#include "db/database.h"
#include "engine/record/lines_writer.h"
#include "engine/record/run_writer.h"
#include "trace/arguments.h"

namespace greta::trace {
namespace {

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
    check_database_name(database_);
    open_for_writing(database_);
  } else if (kind == GRETA_JSONL) {
    lines_.emplace(open_lines_at(path_of(path)));
  } else {
    throw BadArgument("kind " + std::to_string(static_cast<int>(kind)) + " is no greta_kind");
  }
}

std::unique_ptr<Run> Target::open_run(const greta_run_info& info) {
  const RunRecord record = run_record_of(info);
  base_run_name(record);  // throws before anything is written
  if (!database_.empty()) {
    auto writer = std::make_unique<RunWriter>(database_, record);
    std::string name = writer->run_name();
    return std::make_unique<Run>(*this, std::move(writer), std::move(name), info.sample_values);
  }
  const std::lock_guard lock(mutex_);
  if (!lines_) throw Refused(GRETA_ERROR_STATE, "a file of JSON lines has one run");
  auto writer = std::make_unique<LinesWriter>(*std::exchange(lines_, std::nullopt), record);
  std::string name = writer->run_name();
  return std::make_unique<Run>(*this, std::move(writer), std::move(name), info.sample_values);
}

Run* Target::begin_run(const greta_run_info& info) {
  std::unique_ptr<Run> run = open_run(info);
  const std::lock_guard lock(mutex_);
  return runs_.emplace_back(std::move(run)).get();
}

std::unique_ptr<Run> Target::take(Run* run) {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(runs_.begin(), runs_.end(), [run](const auto& one) { return one.get() == run; });
  if (found == runs_.end()) throw BadArgument("no such run");
  std::unique_ptr<Run> taken = std::move(*found);
  runs_.erase(found);
  return taken;
}

void Target::end_run(Run* run, bool complete) { take(run)->end(complete); }

}  // namespace greta::trace
