#include "cli/output/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "common/environment.h"

namespace greta {
namespace {

constexpr size_t kBufferBytes = 64 * 1024;
constexpr int kDefaultTerminalWidth = 80;

}  // namespace

Output::Output() {
  if (!isatty(STDOUT_FILENO)) return;
  winsize size{};
  width_ = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                           : kDefaultTerminalWidth;
  colors_ = environment_variable("NO_COLOR").empty();
}

void Output::write(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= kBufferBytes) flush();
}

void Output::flush() {
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    ssize_t n = ::write(STDOUT_FILENO, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      int error = errno;
      buffer_.clear();
      if (error == EPIPE) throw OutputClosed("standard output was closed");
      throw std::system_error(error, std::generic_category(), "cannot write to standard output");
    }
    rest.remove_prefix(static_cast<size_t>(n));
  }
  buffer_.clear();
}

}  // namespace greta
