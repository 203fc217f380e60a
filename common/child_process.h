#pragma once
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace greta {

/// A program to run, found by PATH, and its arguments. No shell sees them.
struct Program {
  std::vector<std::string> command;
  std::string folder = {};  ///< where it runs; "": here
  /// Beside our environment; a variable without a value is taken out of it.
  std::vector<std::pair<std::string, std::optional<std::string>>> variables = {};
};

/// A program that ended with an exit status other than 0.
struct ProgramFailed : std::runtime_error {
  ProgramFailed(const std::string& program, int with)
      : std::runtime_error(program + " ended with exit status " + std::to_string(with)),
        status(with) {}
  int status;
};

/// Runs a program and returns what it writes to standard output; its errors go where ours go, and
/// it has nothing to read. Throws std::system_error when it cannot be started, ProgramFailed when
/// it does not end with status 0, std::runtime_error when a signal ends it or it writes more than
/// max_bytes.
std::string output_of(const Program& program, size_t max_bytes = size_t{1} << 30);

/// How a program ended.
struct ProgramEnd {
  int status = 0;  ///< exit status
  int signal = 0;  ///< that ended it; 0: it exited
};

/// Runs a program that may take long, in a process group of its own; all that it writes goes to our
/// standard error, and it has nothing to read. A stop signal that we heed (common/stop_signal.h) is
/// passed on to its group, which is killed when the program has not ended ten seconds later; then
/// Stopped is thrown. Throws std::system_error when it cannot be started.
ProgramEnd end_of(const Program& program);

/// Starts a program in a session of its own and leaves it to itself: it has nothing to read, and
/// what it writes goes nowhere. Throws std::system_error when it cannot be started.
void start_apart(const Program& program);

}  // namespace greta
