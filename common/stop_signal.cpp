#include "common/stop_signal.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>

namespace greta {
namespace {

constexpr int kStopSignals[] = {SIGINT, SIGTERM};

std::atomic<int> asked_by{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler must not wait for a lock");

struct sigaction before[std::size(kStopSignals)];

void ask_to_stop(int signal) {
  if (asked_by.exchange(signal) != 0) _exit(128 + signal);
}

}  // namespace

// System calls go on: nobody but the loops that look takes notice.
StopSignals::StopSignals() {
  struct sigaction action {};
  action.sa_handler = ask_to_stop;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < std::size(kStopSignals); ++i) {
    sigaction(kStopSignals[i], &action, &before[i]);
    if (before[i].sa_handler == SIG_IGN) sigaction(kStopSignals[i], &before[i], nullptr);
  }
}

StopSignals::~StopSignals() {
  for (size_t i = 0; i < std::size(kStopSignals); ++i) {
    sigaction(kStopSignals[i], &before[i], nullptr);
  }
}

int stop_signal() noexcept { return asked_by.load(); }

void throw_if_stopped() {
  if (const int signal = stop_signal(); signal != 0) {
    throw Stopped(signal == SIGINT ? "stopped by SIGINT" : "stopped by SIGTERM");
  }
}

HeldSignals::HeldSignals(std::initializer_list<int> signals) {
  sigset_t pending;
  sigemptyset(&raised_);
  for (const int signal : signals) sigaddset(&raised_, signal);
  pthread_sigmask(SIG_BLOCK, &raised_, &mask_before_);
  sigpending(&pending);
  for (const int signal : signals) {
    if (sigismember(&pending, signal) == 1) sigdelset(&raised_, signal);
  }
}

HeldSignals::~HeldSignals() {
  const int error = errno;
  const timespec at_once{};
  while (sigtimedwait(&raised_, nullptr, &at_once) > 0) {
  }
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  errno = error;
}

}  // namespace greta
