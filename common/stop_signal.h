#pragma once
#include <csignal>
#include <initializer_list>
#include <stdexcept>

// SIGINT and SIGTERM, which end a program in good order.

namespace greta {

/// Thrown by throw_if_stopped(); what() names the signal.
struct Stopped : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// While it lives, SIGINT and SIGTERM ask the process to end what it does in good order; a second
/// one ends it at once, with the exit status of a shell: 128 + signal. A signal that is ignored
/// stays so. One at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
};

/// The signal that asked the process to stop; 0: none did. For any thread.
int stop_signal() noexcept;

/// For loops, between two pieces of work. Throws Stopped.
void throw_if_stopped();

/// While it lives, these signals do not reach this thread, and those that its own calls raise are
/// forgotten: write(2) to a pipe without readers is EPIPE and no SIGPIPE. For code in programs
/// whose handlers are not ours to set. Of the thread that made it.
class HeldSignals {
 public:
  HeldSignals(std::initializer_list<int> signals);
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  sigset_t raised_;  ///< those of `signals` that were not pending before
  sigset_t mask_before_;
};

}  // namespace greta
