#include "common/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

extern char** environ;

namespace greta {
namespace {

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

/// What a child begins with.
class SpawnActions {
 public:
  SpawnActions() { posix_spawn_file_actions_init(&actions_); }
  ~SpawnActions() { posix_spawn_file_actions_destroy(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;

  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return status;
}

}  // namespace

std::string output_of(const std::vector<std::string>& command, size_t max_bytes) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail(errno, "a pipe to " + command.front());
  SpawnActions actions;
  posix_spawn_file_actions_addopen(actions.get(), STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(actions.get(), ends[1], STDOUT_FILENO);
  pid_t child = 0;
  const int error = posix_spawnp(&child, command.front().c_str(), actions.get(), nullptr,
                                 arguments.data(), environ);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    fail(error, command.front());
  }
  std::string output;
  char piece[1 << 16];
  ssize_t n = 0;
  while ((n = read(ends[0], piece, sizeof piece)) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 || output.size() + static_cast<size_t>(n) > max_bytes) break;
    output.append(piece, static_cast<size_t>(n));
  }
  close(ends[0]);  // one that goes on writing ends by SIGPIPE
  const int status = wait_for(child);
  if (n > 0) throw std::runtime_error(command.front() + " writes more than can be taken");
  if (n == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0) return output;
  throw std::runtime_error(command.front() +
                           (WIFEXITED(status)
                                ? " ended with exit status " + std::to_string(WEXITSTATUS(status))
                                : " was ended by a signal"));
}

}  // namespace greta
