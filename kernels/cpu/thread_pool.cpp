#include "kernels/cpu/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/thread.h"

namespace greta {
namespace {

using Body = std::function<void(int64_t, int64_t)>;

// int, because the standard library then waits on the very word that the system call compares.
using Word = std::atomic<int>;

constexpr int kClosed = 1 << 30;  // no thread may enter the loop; the bits below count those inside
constexpr std::size_t kCacheLine = 64;

// Every thread adds a last piece, at most n long, to the counter before it sees the end.
constexpr int64_t kMaxCount = std::numeric_limits<int64_t>::max() / (ThreadPool::kMaxThreads + 1);

constexpr auto kSpin = std::chrono::microseconds(100);
constexpr int kPausesBeforeYield = 64;

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns once `word` differs from `value`. Past the first moment it yields, so that on a machine
// with more threads than processors the one it waits for can run.
void await_change(const Word& word, int value) {
  for (int i = 0; i < kPausesBeforeYield; ++i) {
    if (word.load(std::memory_order_acquire) != value) return;
    pause_cpu();
  }
  const auto deadline = std::chrono::steady_clock::now() + kSpin;
  while (std::chrono::steady_clock::now() < deadline) {
    if (word.load(std::memory_order_acquire) != value) return;
    std::this_thread::yield();
  }
  word.wait(value, std::memory_order_acquire);
}

int checked_thread_count(int n_threads) {
  if (n_threads < 1 || n_threads > ThreadPool::kMaxThreads) {
    throw std::invalid_argument("thread pool: " + std::to_string(n_threads) +
                                " threads asked for, 1 to " +
                                std::to_string(ThreadPool::kMaxThreads) + " are possible");
  }
  return n_threads;
}

}  // namespace

// One loop at a time. The caller writes its description while the gate is closed and nobody is
// inside, opens the gate, works along, closes it and waits until the last thread has left.
struct ThreadPool::State {
  ~State();
  void serve();
  bool enter();
  void leave();
  void work();
  void wake(int64_t wanted);
  void take_part_and_wait(int64_t n, int64_t grain, const Body& body);

  alignas(kCacheLine) Word epoch{0};  // loops opened so far, wrapping; idle threads wait on it
  alignas(kCacheLine) Word gate{kClosed};
  alignas(kCacheLine) std::atomic<int64_t> next{0};  // first index that nobody has taken
  alignas(kCacheLine) const Body* body = nullptr;
  int64_t n = 0;
  int64_t grain = 1;
  std::mutex error_mutex;
  std::exception_ptr error;
  std::atomic<bool> running{false};
  std::atomic<bool> stopping{false};
  std::vector<std::thread> threads;
};

ThreadPool::State::~State() {
  stopping = true;
  ++epoch;
  epoch.notify_all();
  for (std::thread& thread : threads) thread.join();
}

// What every thread but the caller's does.
void ThreadPool::State::serve() {
  int seen = 0;
  while (true) {
    await_change(epoch, seen);
    seen = epoch.load(std::memory_order_acquire);
    if (stopping) return;
    if (enter()) {
      work();
      leave();
    }
  }
}

bool ThreadPool::State::enter() {
  if ((gate.fetch_add(1, std::memory_order_acquire) & kClosed) == 0) return true;
  leave();  // too late: this loop is over
  return false;
}

void ThreadPool::State::leave() {
  if (gate.fetch_sub(1, std::memory_order_release) == (kClosed | 1)) gate.notify_one();
}

void ThreadPool::State::work() {
  while (true) {
    const int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
    if (begin >= n) return;
    try {
      (*body)(begin, std::min(n, begin + grain));
    } catch (...) {
      const std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
      next = n;
    }
  }
}

// Threads that still spin see the epoch anyway; of the sleeping, no more than there is work for.
void ThreadPool::State::wake(int64_t wanted) {
  ++epoch;
  if (wanted >= static_cast<int64_t>(threads.size())) {
    epoch.notify_all();
  } else {
    for (int64_t i = 0; i < wanted; ++i) epoch.notify_one();
  }
}

void ThreadPool::State::take_part_and_wait(int64_t count, int64_t piece, const Body& loop_body) {
  body = &loop_body;
  n = count;
  grain = piece;
  next.store(0, std::memory_order_relaxed);
  gate.fetch_and(~kClosed, std::memory_order_release);
  wake((count - 1) / piece);
  work();
  int inside = gate.fetch_or(kClosed, std::memory_order_acquire) | kClosed;
  while (inside != kClosed) {
    await_change(gate, inside);
    inside = gate.load(std::memory_order_acquire);
  }
}

ThreadPool::ThreadPool(int n_threads) : state_(std::make_unique<State>()) {
  const int others = checked_thread_count(n_threads) - 1;
  state_->threads.reserve(static_cast<std::size_t>(others));
  for (int i = 0; i < others; ++i) {
    state_->threads.push_back(start_thread([state = state_.get()] { state->serve(); }));
  }
}

ThreadPool::~ThreadPool() = default;

int ThreadPool::size() const { return static_cast<int>(state_->threads.size()) + 1; }

void ThreadPool::run(int64_t n, int64_t grain, const Body& body) {
  if (grain < 1) {
    throw std::invalid_argument("thread pool: a piece of " + std::to_string(grain) +
                                " elements, at least 1 is needed");
  }
  if (n > kMaxCount) {
    throw std::invalid_argument("thread pool: a loop of " + std::to_string(n) + " elements");
  }
  if (n <= 0) return;
  const int64_t piece = std::min(grain, n);
  if (state_->running.exchange(true, std::memory_order_acquire)) {
    throw std::logic_error("thread pool: run() while a loop is running");
  }
  state_->error = nullptr;
  if (piece == n || size() == 1) {
    // Nothing to share: no other thread is disturbed.
    state_->body = &body;
    state_->n = n;
    state_->grain = piece;
    state_->next.store(0, std::memory_order_relaxed);
    state_->work();
  } else {
    state_->take_part_and_wait(n, piece, body);
  }
  std::exception_ptr error = std::exchange(state_->error, nullptr);
  state_->running.store(false, std::memory_order_release);
  if (error) std::rethrow_exception(error);
}

}  // namespace greta
