#include "cli/output/output.h"

#include <locale.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "common/environment.h"
#include "common/utf8.h"

namespace greta {
namespace {

constexpr size_t kBufferBytes = 64 * 1024;
constexpr int kDefaultTerminalWidth = 80;

/// wcwidth in a UTF-8 locale, whatever the environment says.
int character_width(char32_t code) {
  if (code < 0x300) return 1;
  static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (locale == nullptr) return 1;
  locale_t old = uselocale(locale);
  int width = wcwidth(static_cast<wchar_t>(code));
  uselocale(old);
  return width < 0 ? 1 : width;
}

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

bool ProgressLine::is_due() {
  constexpr std::chrono::milliseconds kInterval{100};
  static const bool is_terminal = isatty(STDERR_FILENO) == 1;
  const auto now = std::chrono::steady_clock::now();
  if (!is_terminal || now - last_ < kInterval) return false;
  last_ = now;
  return true;
}

void ProgressLine::write(const std::string& text) {
  std::fputs(("\r" + text + "\x1b[K").c_str(), stderr);
  is_written_ = true;
}

void ProgressLine::clear() {
  if (is_written_) std::fputs("\r\x1b[K", stderr);
  is_written_ = false;
}

std::string counted(int64_t n, const std::string& noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

size_t display_width(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    utf8::Head head = utf8::head(text);
    width += static_cast<size_t>(character_width(head.code));
    text.remove_prefix(head.bytes);
  }
  return width;
}

std::string cut_to_width(std::string_view text, size_t width) {
  std::string result;
  size_t used = 0;
  while (!text.empty()) {
    utf8::Head head = utf8::head(text);
    size_t columns = static_cast<size_t>(character_width(head.code));
    if (used + columns + 1 > width) break;
    result.append(text.substr(0, head.bytes));
    used += columns;
    text.remove_prefix(head.bytes);
  }
  return result + "…";
}

std::string shortened_to_width(std::string_view text, size_t width) {
  if (display_width(text) <= width) return std::string(text);
  const size_t beginning = width / 2;
  const std::string head = cut_to_width(text, beginning + 1);  // with the ellipsis
  size_t room = width - std::min(width, display_width(head));
  for (std::string_view tail = text; !tail.empty(); tail.remove_prefix(utf8::head(tail).bytes)) {
    if (display_width(tail) <= room) return head + std::string(tail);
  }
  return head;
}

}  // namespace greta
