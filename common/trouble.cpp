#include "common/trouble.h"

#include <cstdio>

#include "common/exit_status.h"
#include "common/stop_signal.h"
#include "common/utf8.h"

namespace greta {

void complain(const std::string& program, const std::string& message,
              const std::vector<std::string>& lines) {
  std::fprintf(stderr, "%s: %s\n", program.c_str(), utf8::printable(message).c_str());
  for (const std::string& line : lines) std::fprintf(stderr, "%s\n", utf8::printable(line).c_str());
}

int end_in_trouble(const std::string& program, const std::string& trouble,
                   const std::string& if_stopped, const std::vector<std::string>& lines) {
  const int signal = stop_signal();
  if (signal != 0) {  // what went wrong is that
    complain(program, if_stopped);
    return 128 + signal;
  }
  complain(program, trouble, lines);
  return kExitError;
}

}  // namespace greta
