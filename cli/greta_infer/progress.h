#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace greta {

/// One line on standard error that says how far slow work has come; only on a terminal. Wiped when
/// it is done.
class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::string_view detail);  ///< at once
  /// As percent, from half a second on and ten times a second: may be called as often as one likes.
  void show(int64_t done, int64_t total);
  void clear();  ///< for other output; the next show() brings it back

 private:
  using Clock = std::chrono::steady_clock;
  std::string label_;
  bool terminal_;
  bool visible_ = false;
  Clock::time_point next_;
};

}  // namespace greta
