#include "engine/record/run_queue.h"

#include <csignal>
#include <utility>

#include "common/stop_signal.h"
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

bool is_end(const RunItem& item) { return std::holds_alternative<RunEnd>(item.what); }
bool is_begin(const RunItem& item) { return std::holds_alternative<PromptRecord>(item.what); }
bool is_about_prompt(const RunItem& item) {
  return !is_begin(item) && !is_end(item) &&
         !std::holds_alternative<RunRecord::Attribute>(item.what);
}

std::vector<std::unique_ptr<RunStore>> only(std::unique_ptr<RunStore> store) {
  std::vector<std::unique_ptr<RunStore>> stores;
  stores.push_back(std::move(store));
  return stores;
}

}  // namespace

RunQueue::RunQueue(std::unique_ptr<RunStore> store) : RunQueue(only(std::move(store))) {}

// The thread is started last: until then the stores are the caller's.
RunQueue::RunQueue(std::vector<std::unique_ptr<RunStore>> stores) : stores_(std::move(stores)) {
  for (const auto& store : stores_) {
    if (std::string name = store->run_name(); !name.empty()) run_name_ = std::move(name);
    if (std::vector<double> of = store->tolerances(); !of.empty()) tolerances_ = std::move(of);
  }
  try {
    thread_ = start_thread([this] { work(); });
  } catch (...) {
    std::rethrow_exception(failed(std::current_exception()));
  }
}

RunQueue::~RunQueue() {
  if (!thread_.joinable()) return;
  for (const auto& store : stores_) store->hurry();
  {
    std::lock_guard lock(mutex_);
    if (!error_) push({0, RunEnd{false}}, 0);
  }
  thread_.join();
}

void RunQueue::rethrow() const {
  if (error_) std::rethrow_exception(error_);
}

int64_t RunQueue::n_rows() {
  std::lock_guard lock(mutex_);
  return n_rows_;
}

/// Wakes the thread only for what it waits for: rows may come one by one, and many.
void RunQueue::push(RunItem item, size_t bytes) {
  ending_ |= is_end(item);
  queue_.push_back({std::move(item), bytes, Clock::now()});
  queued_bytes_ += bytes;
  ++n_given_;
  if (queue_.size() == 1 || queued_bytes_ >= kBatchBytes || ending_) for_writer_.notify_one();
  if (ending_) for_callers_.notify_all();
}

/// Returns the prompt's number.
size_t RunQueue::give(RunItem item, size_t bytes) {
  std::unique_lock lock(mutex_);
  for_callers_.wait(lock, [&] {
    return error_ || ending_ || is_end(item) || queue_.empty() ||
           queued_bytes_ + bytes <= kQueueBytes;
  });
  rethrow();
  if (ending_) throw RunEnded();
  if (is_about_prompt(item) && item.prompt >= n_prompts_) {
    throw std::logic_error("a run's rows before their prompt");
  }
  if (is_begin(item)) item.prompt = n_prompts_++;
  if (const auto* rows = std::get_if<std::vector<TraceRecord>>(&item.what)) {
    n_rows_ += static_cast<int64_t>(rows->size());
  }
  const size_t prompt = item.prompt;
  push(std::move(item), bytes);
  return prompt;
}

/// The next batch: after kGather, or as soon as it is large, waited for or the last. Never empty.
std::vector<RunItem> RunQueue::take() {
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

void RunQueue::work() {
  const HeldSignals held{SIGPIPE, SIGXFSZ};  // errors of a write, whatever the program does of them
  try {
    for (bool last = false; !last;) {
      const std::vector<RunItem> batch = take();
      last = is_end(batch.back());
      for (const auto& store : stores_) store->write(batch);
      std::lock_guard lock(mutex_);
      n_written_ += batch.size();
      if (n_flushing_ > 0) for_callers_.notify_all();
    }
    for (const auto& store : stores_) store->finish();
  } catch (...) {
    fail(std::current_exception());
  }
}

/// Every store marks its run as failed. Returns the error that callers get.
std::exception_ptr RunQueue::failed(std::exception_ptr cause) {
  for (const auto& store : stores_) cause = store->fail(cause);
  return cause;
}

void RunQueue::fail(std::exception_ptr cause) {
  cause = failed(cause);
  std::lock_guard lock(mutex_);
  error_ = cause;
  queue_.clear();
  queued_bytes_ = 0;
  for_callers_.notify_all();
}

void RunQueue::flush() {
  std::unique_lock lock(mutex_);
  const size_t given = n_given_;
  ++n_flushing_;
  for_writer_.notify_one();
  for_callers_.wait(lock, [&] { return error_ || n_written_ >= given; });
  --n_flushing_;
  rethrow();
}

size_t RunQueue::begin_prompt(const PromptRecord& prompt) {
  return give({0, prompt},
              prompt.plan.size() * sizeof(PlannedRow) + prompt.token_ids.size() * sizeof(int32_t));
}

void RunQueue::plan(size_t prompt, std::vector<PlannedRow> plan) {
  const size_t bytes = plan.size() * sizeof(PlannedRow);
  give({prompt, std::move(plan)}, bytes);
}

void RunQueue::rows(size_t prompt, std::vector<TraceRecord> rows) {
  if (rows.empty()) return;
  const size_t bytes = bytes_of(rows);
  give({prompt, std::move(rows)}, bytes);
}

void RunQueue::readout(size_t prompt, const ReadoutRecord& readout) {
  give({prompt, readout}, sizeof readout);
}

void RunQueue::attribute(const std::string& name, const std::string& value) {
  give({0, RunRecord::Attribute{name, value}}, name.size() + value.size());
}

void RunQueue::end(bool complete) {
  give({0, RunEnd{complete}}, 0);
  thread_.join();
  stores_.clear();
  rethrow();
}

void leave_failed_run(const std::string& database, const RunRecord& run) {
  if (database.empty()) return;
  constexpr std::chrono::seconds kPatience{2};  // the user waits for the error
  try {
    RunQueue(store_in_database(database, run, kPatience)).end(false);
  } catch (const std::exception&) {
  }
}

}  // namespace greta
