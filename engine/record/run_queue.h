#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "engine/record/run_store.h"
#include "engine/run/trace_sink.h"

namespace greta {

/// A call about a run that has ended, or ends.
struct RunEnded : std::logic_error {
  RunEnded() : std::logic_error("the run has ended") {}
};

/// A bounded queue of what is said of a run, and the thread that writes it to stores.
///
/// Items are written within 200 ms while the disk keeps up. When the queue is full, calls
/// wait: nothing is dropped. An error of the writing thread (disk full, ...) ends the run and is
/// thrown by every later call. Destroyed without end(), the run is ended as failed.
///
/// Calls may come from any number of threads at once, also beside end(): what is taken is written,
/// and what is not is RunEnded. What one thread gives is written in its order. begin_prompt() calls
/// come one after the other, as TraceSink says.
class RunQueue : public TraceSink {
 public:
  /// The queue's thread writes each item to all stores, in their order. Throws ThreadError; the run
  /// has failed then.
  explicit RunQueue(std::vector<std::unique_ptr<RunStore>> stores);
  explicit RunQueue(std::unique_ptr<RunStore> store);
  ~RunQueue() override;

  const std::string& run_name() const { return run_name_; }  ///< of the last store that has one
  /// Those of a database, as RunStore::tolerances(); empty without one.
  const std::vector<double>& tolerances() const { return tolerances_; }
  int64_t n_rows();  ///< given

  size_t begin_prompt(const PromptRecord& prompt) override;
  void rows(size_t prompt, std::vector<TraceRecord> rows) override;
  void readout(size_t prompt, const ReadoutRecord& readout) override;
  void attribute(const std::string& name, const std::string& value) override;
  void end(bool complete) override;  ///< the stores are closed when it returns

  /// More rows that a prompt must have.
  void plan(size_t prompt, std::vector<PlannedRow> plan);
  /// Returns when all that was given before is written.
  void flush();

 private:
  using Clock = std::chrono::steady_clock;
  struct Queued {
    RunItem item;
    size_t bytes;
    Clock::time_point given;
  };

  size_t give(RunItem item, size_t bytes);
  void push(RunItem item, size_t bytes);
  std::vector<RunItem> take();
  void work();
  void fail(std::exception_ptr cause);
  std::exception_ptr failed(std::exception_ptr cause);
  void rethrow() const;

  std::vector<std::unique_ptr<RunStore>> stores_;  ///< of the thread while it runs
  std::string run_name_;
  std::vector<double> tolerances_;

  std::mutex mutex_;                     // of all that follows
  std::condition_variable for_writer_;   ///< there may be enough to write
  std::condition_variable for_callers_;  ///< there is room, more is written, or an error
  std::deque<Queued> queue_;
  size_t queued_bytes_ = 0;
  size_t n_given_ = 0, n_written_ = 0;  ///< items
  size_t n_prompts_ = 0;
  int64_t n_rows_ = 0;
  size_t n_flushing_ = 0;  ///< callers that wait for their items to be written
  bool ending_ = false;
  std::exception_ptr error_;

  std::thread thread_;
};

/// Leaves a run that could not begin in a database, as failed; empty: in none. An error is not
/// reported: the caller has one to report.
void leave_failed_run(const std::string& database, const RunRecord& run);

}  // namespace greta
