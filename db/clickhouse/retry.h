#pragma once
#include <functional>

#include "db/clickhouse/error.h"

namespace greta::clickhouse {

/// How often something is tried that may be done again.
struct Retries {
  int attempts = 5;                                 ///< 5 wait 3 s in all, 8 wait 25 s
  std::function<void(const Unavailable&)> waiting;  ///< is told why, before each pause
};

/// Does something that may be done again until no Unavailable comes of it: the last one goes to the
/// caller. It waits 0.2 s after the first, then each time twice as long. Throws Stopped while it
/// waits.
void until_available(const Retries& retries, const std::function<void()>& once);

}  // namespace greta::clickhouse
