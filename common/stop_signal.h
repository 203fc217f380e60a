#pragma once
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

}  // namespace greta
