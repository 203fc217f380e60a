#include "engine/record/queued_writer.h"

#include "common/held_signals.h"
#include "common/thread.h"

namespace greta {
namespace {

using std::chrono::milliseconds;

constexpr size_t kQueueBytes = 32u << 20;
constexpr size_t kBatchBytes = 4u << 20;  // some 8,000 rows: 30 ms of writing
constexpr milliseconds kGather{20};       // more under load: batches grow while one is written

size_t bytes_of(const std::vector<TraceRecord>& rows) {
  size_t bytes = rows.size() * sizeof(TraceRecord);
  for (const TraceRecord& row : rows) {
    bytes += row.sample.size() * sizeof(float) + row.extra.size();
    if (row.difference) bytes += sizeof(PairDifference);
  }
  return bytes;
}

}  // namespace

void QueuedWriter::start(std::unique_ptr<RunTarget> target) {
  target_ = std::move(target);
  try {
    thread_ = start_thread([this] { work(); });
  } catch (...) {
    std::rethrow_exception(target_->fail(std::current_exception()));
  }
}

QueuedWriter::~QueuedWriter() {
  if (!thread_.joinable()) return;
  target_->hurry();
  {
    std::lock_guard lock(mutex_);
    if (!error_) push(RunEnd{false}, 0);
  }
  thread_.join();
}

void QueuedWriter::rethrow() const {
  if (error_) std::rethrow_exception(error_);
}

size_t QueuedWriter::last_prompt() const {
  if (n_prompts_ == 0) throw std::logic_error("a run's rows before its first prompt");
  return n_prompts_ - 1;
}

/// Wakes the thread only for what it waits for: rows may come one by one, and many.
void QueuedWriter::push(RunItem item, size_t bytes) {
  ending_ |= std::holds_alternative<RunEnd>(item);
  queue_.push_back({std::move(item), bytes, Clock::now()});
  queued_bytes_ += bytes;
  ++n_given_;
  if (queue_.size() == 1 || queued_bytes_ >= kBatchBytes || ending_) for_writer_.notify_one();
  if (ending_) for_callers_.notify_all();
}

void QueuedWriter::give(RunItem item, size_t bytes) {
  std::unique_lock lock(mutex_);
  const bool is_end = std::holds_alternative<RunEnd>(item);
  for_callers_.wait(lock, [&] {
    return error_ || ending_ || is_end || queue_.empty() || queued_bytes_ + bytes <= kQueueBytes;
  });
  rethrow();
  if (ending_) throw RunEnded();
  push(std::move(item), bytes);
}

/// The next batch: after kGather, or as soon as it is large, waited for or the last. Never empty.
std::vector<RunItem> QueuedWriter::take() {
  std::unique_lock lock(mutex_);
  for_writer_.wait(lock, [this] { return !queue_.empty(); });
  for_writer_.wait_until(lock, queue_.front().given + kGather, [this] {
    return ending_ || n_flushing_ > 0 || queued_bytes_ >= kBatchBytes;
  });
  std::vector<RunItem> batch;
  size_t bytes = 0;
  for (; !queue_.empty() && bytes < kBatchBytes; queue_.pop_front()) {
    bytes += queue_.front().bytes;
    batch.push_back(std::move(queue_.front().item));
  }
  queued_bytes_ -= bytes;
  for_callers_.notify_all();
  return batch;
}

void QueuedWriter::work() {
  const HeldSignals held{SIGPIPE, SIGXFSZ};  // errors of a write, whatever the program does of them
  try {
    for (bool last = false; !last;) {
      const std::vector<RunItem> batch = take();
      last = std::holds_alternative<RunEnd>(batch.back());
      target_->write(batch);
      std::lock_guard lock(mutex_);
      n_written_ += batch.size();
      if (n_flushing_ > 0) for_callers_.notify_all();
    }
    target_->finish();
  } catch (...) {
    fail(std::current_exception());
  }
}

void QueuedWriter::fail(std::exception_ptr cause) {
  cause = target_->fail(cause);
  std::lock_guard lock(mutex_);
  error_ = cause;
  queue_.clear();
  queued_bytes_ = 0;
  for_callers_.notify_all();
}

void QueuedWriter::flush() {
  std::unique_lock lock(mutex_);
  const size_t given = n_given_;
  ++n_flushing_;
  for_writer_.notify_one();
  for_callers_.wait(lock, [&] { return error_ || n_written_ >= given; });
  --n_flushing_;
  rethrow();
}

void QueuedWriter::begin_prompt(const PromptRecord& prompt) {
  give(prompt, prompt.plan.size() * sizeof(PlannedRow) + prompt.token_ids.size() * sizeof(int32_t));
  ++n_prompts_;
}

void QueuedWriter::rows(std::vector<TraceRecord> rows) { rows_of(last_prompt(), std::move(rows)); }

void QueuedWriter::rows_of(size_t prompt, std::vector<TraceRecord> rows) {
  if (rows.empty()) return;
  const size_t bytes = bytes_of(rows);
  give(OfPrompt<std::vector<TraceRecord>>{prompt, std::move(rows)}, bytes);
}

void QueuedWriter::plan_of(size_t prompt, std::vector<PlannedRow> plan) {
  const size_t bytes = plan.size() * sizeof(PlannedRow);
  give(OfPrompt<std::vector<PlannedRow>>{prompt, std::move(plan)}, bytes);
}

void QueuedWriter::readout(const ReadoutRecord& readout) {
  give(OfPrompt<ReadoutRecord>{last_prompt(), readout}, sizeof readout);
}

void QueuedWriter::attribute(const std::string& name, const std::string& value) {
  give(RunAttribute{name, value}, name.size() + value.size());
}

void QueuedWriter::end(bool complete) {
  give(RunEnd{complete}, 0);
  thread_.join();
  target_.reset();
  rethrow();
}

}  // namespace greta
