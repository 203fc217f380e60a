#include "common/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string_view>
#include <system_error>
#include <thread>

#include "common/stop_signal.h"

extern char** environ;

namespace greta {
namespace {

constexpr std::chrono::milliseconds kShortestPause{1}, kLongestPause{50};
constexpr std::chrono::seconds kPatience{10};  // of a stopped program's group

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

/// What a child begins with.
class SpawnActions {
 public:
  SpawnActions() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
  }
  ~SpawnActions() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;

  posix_spawn_file_actions_t* get() { return &actions_; }
  posix_spawnattr_t* attributes() { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

/// Our environment with the changes of `program`, as NAME=value.
std::vector<std::string> environment_of(const Program& program) {
  std::vector<std::string> all;
  const auto changed = [&program](std::string_view entry) {
    const std::string_view name = entry.substr(0, entry.find('='));
    return std::any_of(program.variables.begin(), program.variables.end(),
                       [name](const auto& variable) { return variable.first == name; });
  };
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (!changed(*entry)) all.emplace_back(*entry);
  }
  for (const auto& [name, value] : program.variables) {
    if (value) all.push_back(name + "=" + *value);
  }
  return all;
}

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

/// Has nothing to read. Returns 0 or the error.
int start(const Program& program, SpawnActions& actions, pid_t& child) {
  posix_spawn_file_actions_addopen(actions.get(), STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (!program.folder.empty()) {
    posix_spawn_file_actions_addchdir_np(actions.get(), program.folder.c_str());
  }
  const std::vector<std::string> environment = environment_of(program);
  return posix_spawnp(&child, program.command.front().c_str(), actions.get(), actions.attributes(),
                      pointers_to(program.command).data(), pointers_to(environment).data());
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return status;
}

}  // namespace

std::string output_of(const Program& program, size_t max_bytes) {
  const std::string& name = program.command.front();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail(errno, "a pipe to " + name);
  SpawnActions actions;
  posix_spawn_file_actions_adddup2(actions.get(), ends[1], STDOUT_FILENO);
  pid_t child = 0;
  const int error = start(program, actions, child);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    fail(error, name);
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
  if (n > 0) throw std::runtime_error(name + " writes more than can be taken");
  if (n == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0) return output;
  if (n == 0 && WIFEXITED(status)) throw ProgramFailed(name, WEXITSTATUS(status));
  throw std::runtime_error(name + " was ended by a signal");
}

ProgramEnd end_of(const Program& program) {
  SpawnActions actions;
  posix_spawn_file_actions_adddup2(actions.get(), STDERR_FILENO, STDOUT_FILENO);
  posix_spawnattr_setflags(actions.attributes(), POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(actions.attributes(), 0);
  pid_t child = 0;
  if (const int error = start(program, actions, child); error != 0) {
    fail(error, program.command.front());
  }
  // Looked for rather than waited for: a wait would go on over the signal that stops us.
  int status = 0;
  std::chrono::steady_clock::time_point told{};
  for (auto pause = kShortestPause; waitpid(child, &status, WNOHANG) != child;) {
    const auto now = std::chrono::steady_clock::now();
    if (const int signal = stop_signal(); signal != 0) {
      if (told == std::chrono::steady_clock::time_point{}) {
        kill(-child, signal);
        told = now;
      } else if (now - told > kPatience) {
        kill(-child, SIGKILL);
      }
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
  throw_if_stopped();
  if (WIFSIGNALED(status)) return {.status = 0, .signal = WTERMSIG(status)};
  return {.status = WEXITSTATUS(status), .signal = 0};
}

void start_apart(const Program& program) {
  SpawnActions actions;
  for (const int output : {STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(actions.get(), output, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_setflags(actions.attributes(), POSIX_SPAWN_SETSID);
  pid_t child = 0;
  if (const int error = start(program, actions, child); error != 0)
    fail(error, program.command.front());
}

}  // namespace greta
