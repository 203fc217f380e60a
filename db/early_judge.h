#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include "db/kept_tally.h"

namespace greta {

/// Works out the tallies of a run's prompts on threads of its own while the next ones are written,
/// so that little is left to do when the run ends. Nothing that is kept is out of date: what a
/// tally was worked out from has not changed since, or it is worked out again. All calls come from
/// the thread that writes.
class EarlyJudge {
 public:
  /// db: the connection that writes, which must outlive this. At most so many threads, each with a
  /// connection of its own; none where SQLite or the database has no use for them.
  EarlyJudge(SQLite::Database& db, int64_t run_id, int threads);
  ~EarlyJudge();  ///< once the prompts at hand are done
  EarlyJudge(const EarlyJudge&) = delete;
  EarlyJudge& operator=(const EarlyJudge&) = delete;

  /// All of a prompt is committed.
  void add(int64_t prompt_id);
  /// Something is committed that tallies of any prompt follow from, an attribute of the run. To be
  /// called after every such commit.
  void forget();
  /// The same of more of a prompt.
  void forget(int64_t prompt_id);

  /// Prompts whose tallies are known by now.
  size_t n_known();

  /// Judges the run as judge_run() does: what is known is not worked out again, and the threads,
  /// whose statements are prepared, do what is left. The run has ended; nothing may be added.
  /// max_rows: where more trace rows than these are left to judge, nothing is done. Throws
  /// SQLite::Exception.
  void finish(int threads, int64_t max_rows);

 private:
  void work(SQLite::Database& db);
  void start_threads();
  bool changed_by_others();
  bool is_idle() const { return n_running_ == 0 || (waiting_.empty() && n_at_hand_ == 0); }
  std::map<int64_t, TallyRows> take_known();
  std::map<int64_t, TallyRows> work_out(std::span<const int64_t> prompts);
  void stop();

  SQLite::Database& db_;
  const int64_t run_id_;
  const int threads_wanted_;
  int64_t data_version_ = 0;  ///< of db_: another one when others have written
  bool started_ = false;
  std::deque<SQLite::Database> connections_;
  std::vector<std::thread> threads_;

  std::mutex mutex_;  // of all that follows
  std::condition_variable changed_;
  std::set<int64_t> added_;
  std::deque<int64_t> waiting_;
  std::map<int64_t, TallyRows> known_;
  int64_t generation_ = 0;  ///< of what tallies are made of
  int n_running_ = 0;       ///< threads
  int n_at_hand_ = 0;       ///< prompts that they work on
  bool stopping_ = false;
};

}  // namespace greta
