#include "common/stage_times.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>

#include "common/process.h"

namespace greta {
namespace {

/// Since this process began, as exactly as the system says it: to a tick of 10 ms.
double process_age() {
  const std::string start = this_process().start;
  const size_t blank = start.rfind(' ');
  const long per_second = ::sysconf(_SC_CLK_TCK);
  timespec now{};
  if (blank == std::string::npos || per_second <= 0 || ::clock_gettime(CLOCK_BOOTTIME, &now) != 0) {
    return 0;
  }
  const double ticks = std::strtod(start.c_str() + blank, nullptr);
  const double age = static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9 -
                     ticks / static_cast<double>(per_second);
  return std::max(age, 0.0);
}

}  // namespace

StageTimes::StageTimes()
    : begin_(Clock::now() - std::chrono::duration_cast<Clock::duration>(
                                std::chrono::duration<double>(process_age()))) {}

void StageTimes::end(const std::string& name) {
  const Clock::time_point now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  begin_ = now;
  const auto same = std::find_if(stages_.begin(), stages_.end(),
                                 [&](const Stage& stage) { return stage.name == name; });
  if (same == stages_.end()) {
    stages_.push_back({name, seconds});
  } else {
    same->seconds += seconds;
  }
}

}  // namespace greta
