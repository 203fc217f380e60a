#pragma once
#include <cstdint>
#include <string>

namespace greta {

/// Tells a process from every other, also from a later one of its number.
struct Process {
  std::string host;   ///< name of the machine
  int64_t pid = 0;    ///< on that machine
  std::string start;  ///< boot of the machine and ticks from it to the start; "" not known

  bool operator==(const Process&) const = default;
};

Process this_process();

/// False when it is known to have ended: of a process on another machine nobody knows.
bool may_be_running(const Process& process);

}  // namespace greta
