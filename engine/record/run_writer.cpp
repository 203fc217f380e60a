#include "engine/record/run_writer.h"

#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "common/thread.h"
#include "common/utc_time.h"
#include "db/database.h"
#include "db/early_judge.h"
#include "db/judge.h"
#include "db/kept_diff.h"
#include "db/kept_tally.h"
#include "db/transaction.h"
#include "engine/forward/model.h"
#include "engine/record/run_store.h"

namespace greta {

// A model that the forward pass takes has a key for every row of it.
static_assert(kMaxModelLayers == kMaxLayer + 1 && kMaxModelContext == kMaxPosition);

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t kQueueBytes = 32u << 20;
constexpr size_t kBatchBytes = 4u << 20;    // some 8,000 rows: 30 ms of writing
constexpr milliseconds kGather{20};         // more under load: batches grow while one is written
constexpr milliseconds kLastPatience{500};  // for what can be left undone
constexpr int64_t kWorthAThread = 4000;     // rows, beside which one to judge them costs little
constexpr int kMostJudges = 4;              // that keep up with any engine

struct Finish {
  bool complete;
};
struct Attribute {
  std::string name, value;
};
using Content =
    std::variant<PromptRecord, std::vector<TraceRecord>, ReadoutRecord, Attribute, Finish>;

struct Item {
  Content content;
  size_t bytes;
  Clock::time_point given;
};

size_t bytes_of(const std::vector<TraceRecord>& rows) {
  size_t bytes = rows.size() * sizeof(TraceRecord);
  for (const TraceRecord& row : rows) {
    bytes += row.sample.size() * sizeof(float) + row.extra.size();
    if (row.difference) bytes += sizeof(PairDifference);
  }
  return bytes;
}

std::string advice(int code) {
  switch (code & 0xff) {
    case SQLITE_FULL:
      return "make room on its disk and run again";
    case SQLITE_IOERR:
      return "make room on its disk, or write to another one, and run again";
    case SQLITE_BUSY:
      return "end what holds it, or wait longer (--wait), and run again";
    case SQLITE_READONLY:
      return "make it writable and run again";
    default:
      return "check it with `greta-db check`, or write to another file";
  }
}

}  // namespace

struct RunWriter::State {
  State(const std::filesystem::path& path, const RunRecord& record, milliseconds patience);
  ~State();

  void give(Content content, size_t bytes);
  void work();
  std::deque<Item> take();
  void write(std::deque<Item>& batch);
  void store(const Content& content);
  void fail(std::exception_ptr cause);
  void judge_ahead();
  void judge();
  void close();
  void rethrow();

  const std::filesystem::path file;
  LockWait wait;
  std::optional<SQLite::Database> db;
  std::optional<RunStore> run;
  std::optional<EarlyJudge> judge_beside;
  // Of the transaction at hand: prompts of which all is there, those that go on, and whether an
  // attribute was added.
  std::vector<int64_t> ended_prompts, begun_prompts;
  bool has_attribute = false;
  std::string name;
  std::vector<double> tolerances;
  bool has_prompt = false, ended = false;  // of the caller's thread

  std::mutex mutex;  // of all that follows
  std::condition_variable changed;
  std::deque<Item> queue;
  size_t queued_bytes = 0;
  bool finishing = false;
  std::exception_ptr error;

  std::thread thread;
};

RunWriter::State::State(const std::filesystem::path& path, const RunRecord& record,
                        milliseconds patience)
    : file(path), wait(patience) {
  wait.on_long_wait = LockWait::usual().on_long_wait;
  db.emplace(open_for_writing(path, wait));
  in_transaction(*db, [&] { run.emplace(*db, record); });
  name = run->run_name();
  tolerances = run->tolerances();
  // From here on a stop is the caller's to heed: what is given is written.
  wait.ends_on_stop = false;
  sqlite3_progress_handler(db->getHandle(), 0, nullptr, nullptr);
  try {
    thread = start_thread([this] { work(); });
  } catch (...) {
    in_transaction(*db, [this] { run->finish(false, utc_now()); });
    throw;
  }
}

RunWriter::State::~State() {
  if (!thread.joinable()) return;
  wait.set_patience(kLastPatience);
  {
    std::lock_guard lock(mutex);
    queue.push_back({Finish{false}, 0, Clock::now()});
    finishing = true;
    changed.notify_all();
  }
  thread.join();
}

void RunWriter::State::rethrow() {
  if (error) std::rethrow_exception(error);
}

void RunWriter::State::give(Content content, size_t bytes) {
  const bool is_end = std::holds_alternative<Finish>(content);
  std::unique_lock lock(mutex);
  rethrow();
  if (ended) throw std::logic_error("RunWriter: the run has ended");
  changed.wait(lock, [&] {
    return error || is_end || queue.empty() || queued_bytes + bytes <= kQueueBytes;
  });
  rethrow();
  queue.push_back({std::move(content), bytes, Clock::now()});
  queued_bytes += bytes;
  finishing |= is_end;
  changed.notify_all();
}

/// The next batch: after kGather, or as soon as it is large or the last. Never empty.
std::deque<Item> RunWriter::State::take() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return !queue.empty(); });
  changed.wait_until(lock, queue.front().given + kGather,
                     [this] { return finishing || queued_bytes >= kBatchBytes; });
  std::deque<Item> batch;
  for (size_t bytes = 0; !queue.empty() && bytes < kBatchBytes; queue.pop_front()) {
    bytes += queue.front().bytes;
    batch.push_back(std::move(queue.front()));
  }
  for (const Item& item : batch) queued_bytes -= item.bytes;
  changed.notify_all();
  return batch;
}

void RunWriter::State::work() {
  try {
    for (bool last = false; !last;) {
      std::deque<Item> batch = take();
      last = std::holds_alternative<Finish>(batch.back().content);
      write(batch);
    }
    judge();
  } catch (...) {
    fail(std::current_exception());
  }
}

void RunWriter::State::write(std::deque<Item>& batch) {
  // The last commit is synced to disk, and with it all before.
  const bool last = std::holds_alternative<Finish>(batch.back().content);
  if (last) db->exec("PRAGMA synchronous = FULL");
  in_transaction(*db, [&] {
    for (const Item& item : batch) store(item.content);
  });
  if (!last) judge_ahead();
}

/// What was committed last is judged as far as it is whole, while the next is computed.
void RunWriter::State::judge_ahead() {
  if (!judge_beside && run->rows() >= kWorthAThread && !ended_prompts.empty()) {
    const auto n_cores = static_cast<int>(std::thread::hardware_concurrency());
    judge_beside.emplace(*db, run->run_id(), std::clamp(n_cores / 4, 1, kMostJudges));
  }
  if (!judge_beside) return;
  if (std::exchange(has_attribute, false)) judge_beside->forget();
  for (const int64_t prompt : std::exchange(begun_prompts, {})) judge_beside->forget(prompt);
  for (const int64_t prompt : std::exchange(ended_prompts, {})) judge_beside->add(prompt);
}

void RunWriter::State::store(const Content& content) {
  if (const auto* prompt = std::get_if<PromptRecord>(&content)) {
    if (run->prompt_id() != 0) ended_prompts.push_back(run->prompt_id());
    run->add_prompt(*prompt);
    begun_prompts.push_back(run->prompt_id());
  }
  if (const auto* rows = std::get_if<std::vector<TraceRecord>>(&content)) run->add_rows(*rows);
  if (const auto* readout = std::get_if<ReadoutRecord>(&content)) run->add_readout(*readout);
  if (const auto* a = std::get_if<Attribute>(&content)) {
    run->add_attribute(a->name, a->value);
    has_attribute = true;
  }
  if (const auto* finish = std::get_if<Finish>(&content)) run->finish(finish->complete, utc_now());
}

/// Says that the run failed, in the file if it still takes that and to the next call.
void RunWriter::State::fail(std::exception_ptr cause) {
  wait.set_patience(kLastPatience);
  try {
    in_transaction(*db, [this] { run->finish(false, utc_now()); });
  } catch (const SQLite::Exception&) {
    // It stays running, which is INCOMPLETE as well.
  }
  try {
    std::rethrow_exception(cause);
  } catch (const SQLite::Exception& error_of_db) {
    cause = std::make_exception_ptr(
        DatabaseError("cannot write the traces of run " + name + " to " + file.string() + ": " +
                      error_of_db.what() + "; " + advice(error_of_db.getErrorCode()) +
                      ". What was written stays, as an incomplete run"));
  } catch (...) {
  }
  std::lock_guard lock(mutex);
  error = cause;
  queue.clear();
  queued_bytes = 0;
  changed.notify_all();
}

/// Keeps the verdict, and what changed, and empties the write-ahead log. The run is whole without
/// either, so neither waits long for others.
void RunWriter::State::judge() {
  wait.set_patience(kLastPatience);
  try {
    const int64_t id = run->run_id();
    const auto threads = static_cast<int>(std::thread::hardware_concurrency());
    if (judge_beside) {
      if (has_attribute) judge_beside->forget();
      for (const int64_t prompt : begun_prompts) judge_beside->forget(prompt);
      judge_beside->finish(threads, kJudgeRows);
      judge_beside.reset();
    } else if (run->rows() <= kJudgeRows) {
      judge_run(*db, id, threads);
    }
    keep_diffs(*db, {&id, 1});
    make_durable(*db);
  } catch (const SQLite::Exception&) {
  }
}

void RunWriter::State::close() {
  judge_beside.reset();
  run.reset();
  db.reset();
}

RunWriter::RunWriter(const std::filesystem::path& database, const RunRecord& run,
                     std::optional<milliseconds> patience)
    : state_(std::make_unique<State>(database, run,
                                     patience.value_or(LockWait::usual().patience()))) {}

RunWriter::~RunWriter() = default;

const std::string& RunWriter::run_name() const { return state_->name; }
const std::vector<double>& RunWriter::tolerances() const { return state_->tolerances; }

void RunWriter::begin_prompt(const PromptRecord& prompt) {
  state_->give(prompt, (prompt.plan.size() + 1) * sizeof(PlannedRow));
  state_->has_prompt = true;
}

void RunWriter::rows(std::vector<TraceRecord> rows) {
  if (!state_->has_prompt) throw std::logic_error("RunWriter: rows before the first prompt");
  if (rows.empty()) return;
  const size_t bytes = bytes_of(rows);
  state_->give(std::move(rows), bytes);
}

void RunWriter::readout(const ReadoutRecord& readout) {
  if (!state_->has_prompt) throw std::logic_error("RunWriter: a readout before the first prompt");
  state_->give(readout, sizeof readout);
}

void RunWriter::attribute(const std::string& name, const std::string& value) {
  state_->give(Attribute{name, value}, name.size() + value.size());
}

void RunWriter::end(bool complete) {
  state_->give(Finish{complete}, 0);
  state_->ended = true;
  state_->thread.join();
  state_->close();
  state_->rethrow();
}

}  // namespace greta
