#include "db/judge.h"

#include <sqlite3.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
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

/// A connection that works tallies of prompts out, and its statement takes as long to open and
/// prepare as so many trace rows to judge.
constexpr int64_t kRowsPerThread = 3000;

/// The prompts of one run, judged together. Inside a transaction, whose write lock the threads rely
/// on.
class PromptsJudge {
 public:
  PromptsJudge(SQLite::Database& db, int64_t run_id, std::vector<int64_t> prompts)
      : db_(db), run_id_(run_id), prompts_(std::move(prompts)), tallies_(prompts_.size()) {}

  /// By prompt, in their order.
  std::vector<TallyRows> read(size_t threads) {
    for (size_t i = 1; i < threads; ++i) connections_.push_back(open_beside(db_));
    std::vector<std::future<void>> others;
    for (SQLite::Database& connection : connections_) {
      try {
        others.push_back(std::async(std::launch::async, [this, &connection] { work(connection); }));
      } catch (const std::system_error&) {  // no thread: fewer do it
        break;
      }
    }
    work(db_);
    for (std::future<void>& other : others) other.get();
    return std::move(tallies_);
  }

 private:
  void work(SQLite::Database& db) {
    PromptTallyReader reader(db);
    for (size_t at = next_++; at < prompts_.size(); at = next_++) {
      tallies_[at] = reader.read(run_id_, prompts_[at]);
    }
  }

  SQLite::Database& db_;
  const int64_t run_id_;
  const std::vector<int64_t> prompts_;
  std::vector<TallyRows> tallies_;  ///< of prompts_
  std::atomic<size_t> next_ = 0;
  std::vector<SQLite::Database> connections_;
};

/// The prompts of a run, 0 for the run as a whole first.
std::vector<int64_t> prompts_of(SQLite::Database& db, int64_t run_id) {
  std::vector<int64_t> prompts{0};
  SQLite::Statement query(db, "SELECT id FROM prompt WHERE run_id = ? ORDER BY id");
  query.bind(1, run_id);
  while (query.executeStep()) prompts.push_back(query.getColumn(0).getInt64());
  return prompts;
}

/// Trace rows of prompts of a run, up to a limit.
int64_t rows_of(SQLite::Database& db, int64_t run_id, std::span<const int64_t> prompts,
                int64_t limit) {
  SQLite::Statement query(
      db,
      "SELECT count(*) FROM (SELECT 1 FROM trace_row WHERE run_id = ? AND prompt_id = ? LIMIT ?)");
  int64_t n = 0;
  for (const int64_t prompt : prompts) {
    if (n >= limit) break;
    query.bind(1, run_id);
    query.bind(2, prompt);
    query.bind(3, limit - n);
    query.executeStep();
    n += query.getColumn(0).getInt64();
    query.reset();
  }
  return n;
}

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

bool can_judge_beside(const SQLite::Database& db) { return !is_in_memory(db) && has_mutexes(); }

void judge_run(SQLite::Database& db, int64_t run_id, int threads) {
  using Tallies = std::map<int64_t, TallyRows>;
  judge_run(db, run_id, threads, std::numeric_limits<int64_t>::max(),
            {[] { return Tallies(); }, [](std::span<const int64_t>) { return Tallies(); }});
}

void judge_run(SQLite::Database& db, int64_t run_id, int threads, int64_t max_rows,
               const EarlyTallies& early) {
  in_transaction(db, [&] {
    constexpr auto kMost = static_cast<int64_t>(kMaxThreads);
    std::map<int64_t, TallyRows> tallies = early.known();
    std::vector<int64_t> prompts = prompts_of(db, run_id);
    const auto leave_out_known = [&] {
      std::erase_if(prompts, [&](int64_t prompt) { return tallies.contains(prompt); });
    };
    leave_out_known();
    // Counted no further than it tells anything.
    const bool any = max_rows == std::numeric_limits<int64_t>::max();
    const int64_t limit = any ? kRowsPerThread * kMost : max_rows + 1;
    const int64_t n_rows = rows_of(db, run_id, prompts, limit);
    if (n_rows > max_rows) return;
    tallies.merge(early.work_out(prompts));
    leave_out_known();
    const auto n_prompts = static_cast<int64_t>(prompts.size()) - 1;
    const int64_t worth = n_rows / kRowsPerThread;
    const int64_t wanted = std::min<int64_t>({threads, worth, n_prompts, kMost});
    const bool alone = wanted < 2 || !can_judge_beside(db);
    if (alone && tallies.empty()) return keep_tally(db, run_id);
    if (!prompts.empty()) {
      PromptsJudge judge(db, run_id, prompts);
      std::vector<TallyRows> rest = judge.read(alone ? 1 : static_cast<size_t>(wanted));
      for (size_t i = 0; i < rest.size(); ++i) tallies[prompts[i]] = std::move(rest[i]);
    }
    TallyRows all{run_id, {}};
    for (auto& [prompt, tally] : tallies) {
      std::move(tally.values.begin(), tally.values.end(), std::back_inserter(all.values));
    }
    TallyKeeper(db).keep(all);
  });
}

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
