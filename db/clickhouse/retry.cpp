#include "db/clickhouse/retry.h"

#include <chrono>
#include <thread>

#include "common/stop_signal.h"

namespace greta::clickhouse {
namespace {

constexpr std::chrono::milliseconds kFirstPause{200}, kLook{20};

void wait_for(std::chrono::milliseconds pause) {
  const auto until = std::chrono::steady_clock::now() + pause;
  while (std::chrono::steady_clock::now() < until) {
    throw_if_stopped();
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace

void until_available(const Retries& retries, const std::function<void()>& once) {
  auto pause = kFirstPause;
  for (int attempt = 1;; ++attempt, pause *= 2) {
    try {
      return once();
    } catch (const Unavailable& unavailable) {
      if (attempt >= retries.attempts) throw;
      if (retries.waiting) retries.waiting(unavailable);
    }
    wait_for(pause);
  }
}

}  // namespace greta::clickhouse
