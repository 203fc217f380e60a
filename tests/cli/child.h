// A program that runs beside the test, which may send it signals.
#pragma once
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace greta {

class Child {
 public:
  /// Its standard error goes to the file `err`, its standard output nowhere. `prepare` runs in it
  /// before the program does. Signals are as a terminal leaves them.
  Child(
      std::vector<std::string> words, const std::string& err,
      const std::function<void()>& prepare = [] {})
      : pid_(fork()) {
    if (pid_ != 0) return;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
    dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
    prepare();
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execv(arguments[0], arguments.data());
    _exit(99);
  }
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void send(int signal) const { ::kill(pid_, signal); }

  /// Whether it handles a signal by now: one that comes earlier ends it.
  bool catches(int signal) const {
    std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("SigCgt:")) {
        return (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1) != 0;
      }
    }
    return false;
  }

  /// Waits until `holds`; false when the program ended, or after a minute.
  bool until(const std::function<bool()>& holds) {
    for (int i = 0; i < 60'000; ++i) {
      if (holds()) return true;
      if (waitpid(pid_, &status_, WNOHANG) == pid_) {
        pid_ = -1;
        return holds();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  /// Exit status; -N when signal N ended it.
  int wait() {
    if (pid_ > 0) waitpid(pid_, &status_, 0);
    pid_ = -1;
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_);
  }

 private:
  pid_t pid_;
  int status_ = 0;
};

}  // namespace greta
