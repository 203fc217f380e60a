#include "db/judge.h"

#include <sqlite3.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/stop_signal.h"
#include "common/thread.h"
#include "db/database.h"
#include "db/kept_diff.h"
#include "db/kept_tally.h"
#include "db/transaction.h"

namespace greta {
namespace {

using Clock = std::chrono::steady_clock;

/// A commit costs as much as judging a small run, and other writers wait.
constexpr std::chrono::milliseconds kJudgingTurn{100};
/// A further connection and its statement cost as much as judging some ten runs.
constexpr size_t kRunsPerThread = 50;
/// One of them at a time keeps what they worked out, which takes a sixth of the time.
constexpr size_t kMaxThreads = 6;

/// A connection that works tallies out.
struct TallyConnection {
  explicit TallyConnection(const SQLite::Database& beside) : db(open_beside(beside)) {}
  SQLite::Database db;
  TallyReader reader{db};
};

class Judge {
 public:
  Judge(SQLite::Database& db, std::span<const int64_t> runs, size_t threads)
      : runs_(runs), keeper_(db) {
    if (threads < 2) own_.emplace(db);
    for (size_t i = 0; threads > 1 && i < threads; ++i) {
      connections_.push_back(std::make_unique<TallyConnection>(db));
    }
  }

  bool is_done() const { return next_ >= runs_.size(); }

  /// Inside a transaction, whose write lock the threads rely on.
  void take_turn() {
    const auto end = Clock::now() + kJudgingTurn;
    std::vector<std::future<void>> others;
    for (size_t i = 1; i < connections_.size(); ++i) {
      others.push_back(with_thread_error([this, i, end] {
        return std::async(std::launch::async,
                          [this, i, end] { work(connections_[i]->reader, end); });
      }));
    }
    work(own_ ? *own_ : connections_.front()->reader, end);
    for (std::future<void>& other : others) other.get();
  }

 private:
  void work(TallyReader& reader, Clock::time_point end) {
    do {
      const size_t at = next_++;
      if (at >= runs_.size()) return;
      const TallyRows tally = reader.read(runs_[at]);
      const std::lock_guard lock(keeping_);
      keeper_.keep(tally);
    } while (Clock::now() < end);
  }

  std::span<const int64_t> runs_;
  std::atomic<size_t> next_ = 0;
  std::mutex keeping_;  // keeper_'s connection is one for all threads
  TallyKeeper keeper_;
  std::optional<TallyReader> own_;  // on the connection that keeps
  std::vector<std::unique_ptr<TallyConnection>> connections_;
};

bool is_in_memory(const SQLite::Database& db) {
  const std::string& name = db.getFilename();
  return name.empty() || name == ":memory:";
}

/// Where SQLite is configured for a single thread, all its mutexes are the same one.
bool has_mutexes() {
  sqlite3_mutex* const one = sqlite3_mutex_alloc(SQLITE_MUTEX_FAST);
  sqlite3_mutex* const other = sqlite3_mutex_alloc(SQLITE_MUTEX_FAST);
  const bool are_two = one != other;
  sqlite3_mutex_free(one);
  sqlite3_mutex_free(other);
  return are_two;
}

}  // namespace

void judge(SQLite::Database& db, std::span<const int64_t> runs, int threads) {
  if (runs.empty()) return;
  const size_t worth = is_in_memory(db) || !has_mutexes() ? 1 : 1 + runs.size() / kRunsPerThread;
  const size_t wanted = static_cast<size_t>(std::max(threads, 1));
  Judge judge(db, runs, std::min({wanted, worth, kMaxThreads}));
  while (!judge.is_done()) {
    throw_if_stopped();
    in_transaction(db, [&judge] { judge.take_turn(); });
  }
  keep_diffs(db, runs);
}

}  // namespace greta
