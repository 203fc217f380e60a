#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cli/commits/bisect_log.h"
#include "cli/commits/repository.h"
#include "common/child_process.h"

namespace greta {

/// The line of sh that probes a commit, run in a work tree of its own, which the log names while it
/// is there. It has to leave a run of that commit in the database.
class CommitCommand {
 public:
  /// Borrows repository and log; `line` "": there is none.
  CommitCommand(std::string line, std::string database, const Repository& repository,
                BisectLog& log);

  bool is_given() const { return !line_.empty(); }

  /// Throws std::runtime_error when it cannot be run or a signal ends it; Stopped.
  ProgramEnd run(const std::string& commit);

  /// Removes the work tree of a process that was killed, as the log has it. Throws UsageError where
  /// that may still run.
  void remove_left();

 private:
  std::string line_, database_;
  const Repository& repository_;
  BisectLog& log_;
};

/// As for `git bisect run`: the commit cannot be tested.
bool cannot_be_tested(const ProgramEnd& end);

/// Throws UsageError: the command, run on a commit, left no run of it `where` ("", " in lineage
/// X"); `lines` say which it did leave.
[[noreturn]] void refuse_end(const std::string& commit, const ProgramEnd& end,
                             const std::string& where, std::vector<std::string> lines = {});

}  // namespace greta
