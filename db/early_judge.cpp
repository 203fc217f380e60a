#include "db/early_judge.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "common/thread.h"
#include "db/database.h"
#include "db/judge.h"

namespace greta {
namespace {

int64_t data_version(SQLite::Database& db) {
  return db.execAndGet("PRAGMA data_version").getInt64();
}

}  // namespace

EarlyJudge::EarlyJudge(SQLite::Database& db, int64_t run_id, int threads)
    : db_(db),
      run_id_(run_id),
      threads_wanted_(can_judge_beside(db) ? threads : 0),
      data_version_(data_version(db)) {}

EarlyJudge::~EarlyJudge() { stop(); }

void EarlyJudge::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    waiting_.clear();
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  connections_.clear();
}

/// Fewer, or none, where the system has no more.
void EarlyJudge::start_threads() {
  if (std::exchange(started_, true)) return;
  try {
    for (int i = 0; i < threads_wanted_; ++i) {
      SQLite::Database& beside = connections_.emplace_back(open_beside(db_));
      threads_.push_back(start_thread([this, &beside] { work(beside); }));
      const std::lock_guard lock(mutex_);
      ++n_running_;
    }
  } catch (const ThreadError&) {
  } catch (const SQLite::Exception&) {
  }
}

void EarlyJudge::work(SQLite::Database& db) {
  int at_hand = 0;
  try {
    PromptTallyReader reader(db);
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (stopping_) break;
      const int64_t prompt = waiting_.front();
      waiting_.pop_front();
      const int64_t generation = generation_;
      n_at_hand_ += at_hand = 1;
      lock.unlock();
      TallyRows tally = reader.read(run_id_, prompt);
      lock.lock();
      n_at_hand_ -= std::exchange(at_hand, 0);
      if (generation == generation_) known_[prompt] = std::move(tally);
      changed_.notify_all();
    }
  } catch (const std::exception&) {  // the prompts are judged at the end
  }
  const std::lock_guard lock(mutex_);
  n_at_hand_ -= at_hand;
  --n_running_;
  changed_.notify_all();
}

void EarlyJudge::add(int64_t prompt_id) {
  if (threads_wanted_ == 0) return;
  start_threads();
  const bool others = changed_by_others();
  const std::lock_guard lock(mutex_);
  if (others) {  // what is known may be out of date, and soon be so again
    ++generation_;
    known_.clear();
  }
  added_.insert(prompt_id);
  waiting_.push_back(prompt_id);
  changed_.notify_one();
}

void EarlyJudge::forget() {
  const std::lock_guard lock(mutex_);
  ++generation_;
  known_.clear();
  waiting_.assign(added_.begin(), added_.end());
  changed_.notify_all();
}

void EarlyJudge::forget(int64_t prompt_id) {
  const std::lock_guard lock(mutex_);
  if (added_.erase(prompt_id) == 0) return;
  ++generation_;  // it may be at hand
  known_.clear();
  waiting_.assign(added_.begin(), added_.end());
  changed_.notify_all();
}

size_t EarlyJudge::n_known() {
  const std::lock_guard lock(mutex_);
  return known_.size();
}

bool EarlyJudge::changed_by_others() {
  const int64_t now = data_version(db_);
  return std::exchange(data_version_, now) != now;
}

/// What is known once the prompts at hand are done.
std::map<int64_t, TallyRows> EarlyJudge::take_known() {
  const bool others = changed_by_others();
  std::unique_lock lock(mutex_);
  waiting_.clear();
  changed_.wait(lock, [this] { return is_idle(); });
  if (others) known_.clear();
  return std::exchange(known_, {});
}

std::map<int64_t, TallyRows> EarlyJudge::work_out(std::span<const int64_t> prompts) {
  std::unique_lock lock(mutex_);
  waiting_.assign(prompts.begin(), prompts.end());
  changed_.notify_all();
  changed_.wait(lock, [this] { return is_idle(); });
  return std::exchange(known_, {});
}

void EarlyJudge::finish(int threads, int64_t max_rows) {
  judge_run(db_, run_id_, threads, max_rows,
            {[this] { return take_known(); },
             [this](std::span<const int64_t> prompts) { return work_out(prompts); }});
  stop();
}

}  // namespace greta
