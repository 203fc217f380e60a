#pragma once

#include <csignal>
#include <initializer_list>

namespace greta {

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
