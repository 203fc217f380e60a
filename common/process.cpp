#include "common/process.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <sstream>

namespace greta {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// proc(5): the 22nd field of stat; the second is in parentheses and may hold anything.
std::string start_of(int64_t pid) {
  const std::string stat = first_line("/proc/" + std::to_string(pid) + "/stat");
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return "";
  std::istringstream fields(stat.substr(name_end + 1));
  std::string field;
  for (int i = 3; i <= 22 && fields >> field; ++i) {
  }
  return first_line("/proc/sys/kernel/random/boot_id") + " " + field;
}

}  // namespace

Process this_process() { return {host_name(), getpid(), start_of(getpid())}; }

bool may_be_running(const Process& process) {
  if (process.host != host_name()) return true;
  if (kill(static_cast<pid_t>(process.pid), 0) != 0 && errno == ESRCH) return false;
  const std::string start = start_of(process.pid);
  return start.empty() || process.start.empty() || start == process.start;
}

}  // namespace greta
