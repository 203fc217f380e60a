#include "cli/commits/commit_command.h"

#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "cli/commits/work_tree.h"
#include "common/exit_status.h"

namespace greta {
namespace {

constexpr int kCannotBeTested = 125;
constexpr int kCannotBeRun = 126;  // from here on a shell's statuses say nothing of the commit

std::string end_text(const ProgramEnd& end) {
  if (end.signal != 0) {
    return "was ended by signal " + std::to_string(end.signal) + " (" + strsignal(end.signal) + ")";
  }
  return "ended with exit status " + std::to_string(end.status) +
         (end.status == 126   ? ": it cannot be run"
          : end.status == 127 ? ": it was not found"
                              : "");
}

}  // namespace

CommitCommand::CommitCommand(std::string line, std::string database, const Repository& repository,
                             BisectLog& log)
    : line_(std::move(line)), database_(std::move(database)), repository_(repository), log_(log) {}

ProgramEnd CommitCommand::run(const std::string& commit) {
  const WorkTree tree(repository_, commit);
  log_.set_tree(BisectTree{this_process(), tree.path()});
  Program program{.command = {"sh", "-c", line_}, .folder = tree.path()};
  program.variables = repository_.program({}).variables;
  program.variables.emplace_back("GRETA_BISECT_COMMIT", commit);
  program.variables.emplace_back("GRETA_BISECT_TREE", tree.path());
  program.variables.emplace_back("GRETA_DB", std::filesystem::absolute(database_).string());
  const ProgramEnd end = end_of(program);
  log_.set_tree(std::nullopt);  // it goes now
  if (end.signal != 0 || end.status >= kCannotBeRun) {
    throw std::runtime_error("the command, run on " + short_sha(commit) + ", " + end_text(end) +
                             "; nothing is concluded from it, and the same call goes on here");
  }
  return end;
}

void CommitCommand::remove_left() {
  if (!log_.tree()) return;
  const BisectTree left = *log_.tree();
  if (may_be_running(left.user) && std::filesystem::exists(left.path)) {
    throw UsageError(log_.file() + " is in use: process " + std::to_string(left.user.pid) + " of " +
                     left.user.host + " searches by it");
  }
  WorkTree::remove_left(repository_, left.path);
  log_.set_tree(std::nullopt);
}

bool cannot_be_tested(const ProgramEnd& end) { return end.status == kCannotBeTested; }

void refuse_end(const std::string& commit, const ProgramEnd& end, const std::string& where,
                std::vector<std::string> lines) {
  throw UsageError("the command, run on " + short_sha(commit) + ", ended with exit status " +
                       std::to_string(end.status) + " and left no run" + where +
                       ": it has to probe with --commit \"$GRETA_BISECT_COMMIT\" into " +
                       "\"$GRETA_DB\", or to exit with 125 where that cannot be done",
                   std::move(lines));
}

}  // namespace greta
