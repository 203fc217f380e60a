#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "engine/run/trace_sink.h"

namespace greta {

/// What belongs to the nth prompt of a run, from 0 in the order of begin_prompt().
template <class What>
struct OfPrompt {
  size_t prompt = 0;
  What what;
};
struct RunAttribute {
  std::string name, value;
};
struct RunEnd {
  bool complete = false;
};

/// One thing that is said of a run.
using RunItem =
    std::variant<PromptRecord, OfPrompt<std::vector<PlannedRow>>,
                 OfPrompt<std::vector<TraceRecord>>, OfPrompt<ReadoutRecord>, RunAttribute, RunEnd>;

/// Where a run is written, by one thread. Destroyed, it is closed.
class RunTarget {
 public:
  virtual ~RunTarget() = default;
  /// Writes the items, in order, all or none; others can read them then. RunEnd is the last of the
  /// last call, after which all is synced to disk. Throws what says that the run cannot be written.
  virtual void write(const std::vector<RunItem>& items) = 0;
  /// What is left to do when all is on disk, and without which the run is whole as well.
  virtual void finish() {}
  /// The run cannot be written, for `cause`: marks it failed where that goes. Returns what callers
  /// are told.
  virtual std::exception_ptr fail(std::exception_ptr cause) = 0;
  /// Nobody waits for the run any more: waits for others are to be short. From any thread.
  virtual void hurry() {}
};

/// Something is said of a run that has ended, or ends.
struct RunEnded : std::logic_error {
  RunEnded() : std::logic_error("the run has ended") {}
};

/// Writes a run by a thread of its own, fed by a bounded queue. Who derives from it calls start().
///
/// What is given is written within 200 ms while the disk keeps up. When the queue is full, calls
/// wait: nothing is dropped. An error of the writing thread (disk full, ...) ends the run and is
/// thrown by this and every later call. Destroyed without end(), the run is ended as failed.
///
/// begin_prompt(), rows(), readout() and end() come from one thread, as TraceSink says; the others
/// may come from any number at once, also beside end(): what is taken is written, and what is not
/// is RunEnded. What one thread gives is written in its order.
class QueuedWriter : public TraceSink {
 public:
  ~QueuedWriter() override;

  void begin_prompt(const PromptRecord& prompt) override;
  void rows(std::vector<TraceRecord> rows) override;
  void readout(const ReadoutRecord& readout) override;
  void attribute(const std::string& name, const std::string& value) override;
  void end(bool complete) override;  ///< the target is closed when it returns

  /// Rows of the nth prompt that has begun, whichever began last.
  void rows_of(size_t prompt, std::vector<TraceRecord> rows);
  /// More rows that the nth prompt must have.
  void plan_of(size_t prompt, std::vector<PlannedRow> plan);
  /// Returns when all that was given before is written.
  void flush();

 protected:
  QueuedWriter() = default;
  /// Once, before all else. Throws ThreadError; the target has failed then.
  void start(std::unique_ptr<RunTarget> target);

 private:
  using Clock = std::chrono::steady_clock;
  struct Queued {
    RunItem item;
    size_t bytes;
    Clock::time_point given;
  };

  void give(RunItem item, size_t bytes);
  void push(RunItem item, size_t bytes);
  std::vector<RunItem> take();
  void work();
  void fail(std::exception_ptr cause);
  void rethrow() const;
  size_t last_prompt() const;

  std::unique_ptr<RunTarget> target_;  ///< of the thread while it runs
  size_t n_prompts_ = 0;

  std::mutex mutex_;                     // of all that follows
  std::condition_variable for_writer_;   ///< there may be enough to write
  std::condition_variable for_callers_;  ///< there is room, more is written, or an error
  std::deque<Queued> queue_;
  size_t queued_bytes_ = 0;
  size_t n_given_ = 0, n_written_ = 0;  ///< items
  size_t n_flushing_ = 0;               ///< callers that wait for their items to be written
  bool ending_ = false;
  std::exception_ptr error_;

  std::thread thread_;
};

}  // namespace greta
