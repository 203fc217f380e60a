#include "kernels/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace greta {
namespace {

// How often each index of [0, n) was given to a body, and the longest piece.
struct Visits {
  std::vector<std::atomic<int>> count;
  std::atomic<int64_t> longest{0};

  Visits(ThreadPool& pool, int64_t n, int64_t grain) : count(static_cast<size_t>(n)) {
    pool.run(n, grain, [this](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ++count[static_cast<size_t>(i)];
      int64_t seen = longest;
      while (seen < end - begin && !longest.compare_exchange_weak(seen, end - begin)) {
      }
    });
  }

  bool each_once() const {
    return std::all_of(count.begin(), count.end(), [](const auto& times) { return times == 1; });
  }
};

TEST(ThreadPool, CoversEveryIndexOnceInPiecesOfAtMostTheGrain) {
  for (int n_threads : {1, 2, 3, 8}) {
    ThreadPool pool(n_threads);
    ASSERT_EQ(pool.size(), n_threads);
    for (int64_t n : {1, 2, 3, 7, 64, 1000}) {
      for (int64_t grain : {1, 2, 5, 63, 64, 65, 5000}) {
        const Visits visits(pool, n, grain);
        EXPECT_TRUE(visits.each_once()) << n_threads << " threads, " << n << " by " << grain;
        EXPECT_LE(visits.longest, grain);
        EXPECT_GE(visits.longest, 1);
      }
    }
  }
}

TEST(ThreadPool, NothingToDoCallsNothing) {
  ThreadPool pool(2);
  int calls = 0;
  pool.run(0, 1, [&](int64_t, int64_t) { ++calls; });
  pool.run(-5, 1, [&](int64_t, int64_t) { ++calls; });
  EXPECT_EQ(calls, 0);
}

// Each body waits until all have begun: it returns only if every thread takes a piece.
TEST(ThreadPool, AllThreadsTakePart) {
  constexpr int kThreads = 4;
  ThreadPool pool(kThreads);
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> begun{0};
    pool.run(kThreads, 1, [&](int64_t, int64_t) {
      ++begun;
      while (begun < kThreads) std::this_thread::yield();
    });
    EXPECT_EQ(begun, kThreads);
  }
}

TEST(ThreadPool, ThreadsThatWentToSleepWakeUp) {
  ThreadPool pool(2);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int> begun{0};
    pool.run(2, 1, [&](int64_t, int64_t) {
      ++begun;
      while (begun < 2) std::this_thread::yield();
    });
    EXPECT_EQ(begun, 2);
  }
}

TEST(ThreadPool, ManyMoreThreadsThanProcessorsFinishManyShortLoops) {
  ThreadPool pool(32);
  int64_t sum = 0;
  for (int64_t round = 0; round < 2000; ++round) {
    std::atomic<int64_t> part{0};
    pool.run(40, 1, [&](int64_t begin, int64_t) { part += begin; });
    sum += part;
  }
  EXPECT_EQ(sum, 2000 * (39 * 40 / 2));
}

TEST(ThreadPool, WritesOfAllThreadsAreVisibleAfterwards) {
  ThreadPool pool(3);
  std::vector<int64_t> values(1000, 0);  // not atomic: run() itself must order them
  for (int64_t round = 1; round <= 200; ++round) {
    pool.run(1000, 7, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ++values[static_cast<size_t>(i)];
    });
    ASSERT_EQ(std::count(values.begin(), values.end(), round), 1000);
  }
}

TEST(ThreadPool, AnExceptionReachesTheCallerAndThePoolGoesOn) {
  for (int n_threads : {1, 3}) {
    ThreadPool pool(n_threads);
    for (int64_t bad : {0, 50, 99}) {
      try {
        pool.run(100, 1, [&](int64_t begin, int64_t) {
          if (begin == bad) throw std::runtime_error("piece " + std::to_string(begin));
        });
        FAIL() << "no exception";
      } catch (const std::runtime_error& error) {
        EXPECT_EQ(error.what(), "piece " + std::to_string(bad));
      }
      EXPECT_TRUE(Visits(pool, 100, 3).each_once());
    }
  }
}

TEST(ThreadPool, PiecesNotBegunAreSkippedAfterAnException) {
  ThreadPool pool(1);
  int calls = 0;
  EXPECT_THROW(pool.run(1000, 1,
                        [&](int64_t, int64_t) {
                          ++calls;
                          throw std::runtime_error("first");
                        }),
               std::runtime_error);
  EXPECT_EQ(calls, 1);
}

TEST(ThreadPool, ALoopInsideALoopIsRefused) {
  for (int n_threads : {1, 2}) {
    ThreadPool pool(n_threads);
    EXPECT_THROW(pool.run(4, 1, [&](int64_t, int64_t) { pool.run(1, 1, [](auto, auto) {}); }),
                 std::logic_error);
    EXPECT_TRUE(Visits(pool, 10, 1).each_once());
  }
}

TEST(ThreadPool, RefusesSizesThatCannotBe) {
  EXPECT_THROW(ThreadPool(0), std::invalid_argument);
  EXPECT_THROW(ThreadPool(-1), std::invalid_argument);
  EXPECT_THROW(ThreadPool(ThreadPool::kMaxThreads + 1), std::invalid_argument);
  ThreadPool pool(2);
  const auto nothing = [](int64_t, int64_t) {};
  EXPECT_THROW(pool.run(1, 0, nothing), std::invalid_argument);
  EXPECT_THROW(pool.run(1, -1, nothing), std::invalid_argument);
  EXPECT_THROW(pool.run(std::numeric_limits<int64_t>::max(), 1, nothing), std::invalid_argument);
}

TEST(ThreadPool, MayEndAtAnyMoment) {
  for (int round = 0; round < 100; ++round) {
    ThreadPool unused(4);
    auto used = std::make_unique<ThreadPool>(4);
    EXPECT_TRUE(Visits(*used, 8, 1).each_once());
    used.reset();
  }
}

}  // namespace
}  // namespace greta
