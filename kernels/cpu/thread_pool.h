#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>

namespace greta {

/// How many pieces of `piece` ≥ 1 cover n ≥ 0.
constexpr int64_t divide_up(int64_t n, int64_t piece) { return (n + piece - 1) / piece; }

/// Memory that a thread keeps for its next call, aligned to kBytes; its content is lost when it
/// grows.
class ThreadScratch {
 public:
  static constexpr size_t kBytes = 64;

  float* get(int64_t n_values) {
    const auto wanted = static_cast<size_t>(n_values);
    if (wanted > capacity_) {
      values_.reset();
      capacity_ = 0;
      values_.reset(static_cast<float*>(::operator new(wanted * sizeof(float), kAlignment)));
      capacity_ = wanted;
    }
    return values_.get();
  }

 private:
  static constexpr std::align_val_t kAlignment{kBytes};
  struct Free {
    void operator()(float* values) const { ::operator delete(values, kAlignment); }
  };
  std::unique_ptr<float, Free> values_;
  size_t capacity_ = 0;
};

/// A fixed team of threads for loops whose pieces do not depend on each other.
///
/// Between loops the threads spin for some microseconds, since the next loop of a forward pass
/// follows at once, and then sleep: an idle pool costs nothing. A loop waits only for threads that
/// took part in it, so one that the system does not schedule does not hold it up.
class ThreadPool {
 public:
  static constexpr int kMaxThreads = 1024;

  /// n_threads in [1, kMaxThreads] includes the thread that calls run(). Throws
  /// std::invalid_argument beyond, ThreadError when the system has no thread left.
  explicit ThreadPool(int n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const;

  /// Calls body(begin, end) over disjoint pieces that cover [0, n), at most `grain` ≥ 1 long each,
  /// on all threads; returns when all are done, and their writes are visible then. Which thread
  /// takes which piece varies, so body must not let results depend on it. The first exception that
  /// a body throws is rethrown here; pieces not yet begun are skipped then. n ≤ 0 does nothing.
  /// Throws std::invalid_argument for a bad grain, std::logic_error when called while a loop is
  /// running: one caller at a time, and no loop inside a body.
  void run(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace greta
