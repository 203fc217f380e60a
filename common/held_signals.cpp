#include "common/held_signals.h"

#include <cerrno>
#include <ctime>

namespace greta {

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
