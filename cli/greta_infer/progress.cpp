#include "cli/greta_infer/progress.h"

#include <unistd.h>

#include <cstdio>

#include "common/utf8.h"

namespace greta {

Progress::Progress(std::string label)
    : label_(std::move(label)),
      terminal_(isatty(STDERR_FILENO) == 1),
      next_(Clock::now() + std::chrono::milliseconds(500)) {}

Progress::~Progress() { clear(); }

void Progress::show(std::string_view detail) {
  if (!terminal_) return;
  std::fprintf(stderr, "\r\x1b[K%s", utf8::printable(label_ + ": " + std::string(detail)).c_str());
  visible_ = true;
}

void Progress::show(int64_t done, int64_t total) {
  if (Clock::now() < next_) return;
  next_ = Clock::now() + std::chrono::milliseconds(100);
  show(std::to_string(total > 0 ? 100 * done / total : 100) + " %");
}

void Progress::clear() {
  if (visible_) std::fputs("\r\x1b[K", stderr);
  visible_ = false;
}

}  // namespace greta
