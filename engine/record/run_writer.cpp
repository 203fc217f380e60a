#include "engine/record/run_writer.h"

#include <sqlite3.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "common/utc_time.h"
#include "db/database.h"
#include "db/early_judge.h"
#include "db/judge.h"
#include "db/kept_diff.h"
#include "db/kept_tally.h"
#include "db/transaction.h"
#include "engine/record/run_store.h"

namespace greta {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLastPatience{500};  // for what can be left undone
constexpr int64_t kWorthAThread = 4000;     // rows, beside which one to judge them costs little
constexpr int kMostJudges = 4;              // that keep up with any engine

std::string advice(int code) {
  if (code == SQLITE_READONLY_DBMOVED)
    return "leave it in its place while it is written, and run again";
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

/// The run in its database.
class RunWriter::Target final : public RunTarget {
 public:
  Target(const std::filesystem::path& path, const RunRecord& record, milliseconds patience);

  void write(const std::vector<RunItem>& items) override;
  void finish() override;
  std::exception_ptr fail(std::exception_ptr cause) override;
  void hurry() override { wait_.set_patience(kLastPatience); }

  RunStore& run() { return *run_; }

 private:
  void store(const RunItem& item);
  void note_late(size_t prompt);
  void forget_changed();
  void judge_ahead();

  const std::filesystem::path file_;
  LockWait wait_;
  std::optional<SQLite::Database> db_;
  std::optional<RunStore> run_;
  std::optional<EarlyJudge> judge_beside_;
  // Of the transaction at hand: prompts of which all is there, those that began, those that went on
  // although others had begun, and whether an attribute was added.
  std::vector<int64_t> ended_prompts_, begun_prompts_, late_prompts_;
  bool has_attribute_ = false;
};

RunWriter::Target::Target(const std::filesystem::path& path, const RunRecord& record,
                          milliseconds patience)
    : file_(path), wait_(patience) {
  wait_.on_long_wait = LockWait::usual().on_long_wait;
  db_.emplace(open_for_writing(path, wait_));
  in_transaction(*db_, [&] { run_.emplace(*db_, record); });
  // From here on a stop is the caller's to heed: what is given is written.
  wait_.ends_on_stop = false;
  sqlite3_progress_handler(db_->getHandle(), 0, nullptr, nullptr);
}

void RunWriter::Target::write(const std::vector<RunItem>& items) {
  // The last commit is synced to disk, and with it all before.
  const bool last = std::holds_alternative<RunEnd>(items.back());
  if (last) db_->exec("PRAGMA synchronous = FULL");
  in_transaction(*db_, [&] {
    for (const RunItem& item : items) store(item);
    run_->write_rows();
  });
  if (!last) judge_ahead();
}

void RunWriter::Target::store(const RunItem& item) {
  if (const auto* rows = std::get_if<OfPrompt<std::vector<TraceRecord>>>(&item)) {
    run_->take_rows(rows->prompt, rows->what);
    return note_late(rows->prompt);
  }
  run_->write_rows();
  if (const auto* prompt = std::get_if<PromptRecord>(&item)) {
    if (run_->n_prompts() > 0) ended_prompts_.push_back(run_->prompt_id(run_->n_prompts() - 1));
    run_->add_prompt(*prompt);
    begun_prompts_.push_back(run_->prompt_id(run_->n_prompts() - 1));
  }
  if (const auto* plan = std::get_if<OfPrompt<std::vector<PlannedRow>>>(&item)) {
    run_->add_plan(plan->prompt, plan->what);
    note_late(plan->prompt);
  }
  if (const auto* readout = std::get_if<OfPrompt<ReadoutRecord>>(&item)) {
    run_->add_readout(readout->prompt, readout->what);
  }
  if (const auto* a = std::get_if<RunAttribute>(&item)) {
    run_->add_attribute(a->name, a->value);
    has_attribute_ = true;
  }
  if (const auto* end = std::get_if<RunEnd>(&item)) run_->finish(end->complete, utc_now());
}

/// A prompt is taken for whole when the next begins; more of it may come all the same.
void RunWriter::Target::note_late(size_t prompt) {
  if (prompt + 1 == run_->n_prompts()) return;
  const int64_t id = run_->prompt_id(prompt);
  if (late_prompts_.empty() || late_prompts_.back() != id) late_prompts_.push_back(id);
}

void RunWriter::Target::forget_changed() {
  if (std::exchange(has_attribute_, false)) judge_beside_->forget();
  for (const auto* changed : {&begun_prompts_, &late_prompts_}) {
    for (const int64_t prompt : *changed) judge_beside_->forget(prompt);
  }
  begun_prompts_.clear();
}

/// What was committed last is judged as far as it is whole, while the next is computed.
void RunWriter::Target::judge_ahead() {
  if (!judge_beside_ && run_->rows() >= kWorthAThread && !ended_prompts_.empty()) {
    const auto n_cores = static_cast<int>(std::thread::hardware_concurrency());
    judge_beside_.emplace(*db_, run_->run_id(), std::clamp(n_cores / 4, 1, kMostJudges));
  }
  if (!judge_beside_) return;
  forget_changed();
  const std::vector<int64_t> late = std::exchange(late_prompts_, {});
  for (const int64_t prompt : std::exchange(ended_prompts_, {})) {
    if (std::find(late.begin(), late.end(), prompt) == late.end()) judge_beside_->add(prompt);
  }
}

/// Says that the run failed, in the file if it still takes that and to the next call.
std::exception_ptr RunWriter::Target::fail(std::exception_ptr cause) {
  wait_.set_patience(kLastPatience);
  try {
    in_transaction(*db_, [this] { run_->finish(false, utc_now()); });
  } catch (const SQLite::Exception&) {
    // It stays running, which is INCOMPLETE as well.
  }
  try {
    std::rethrow_exception(cause);
  } catch (const SQLite::Exception& error) {
    return std::make_exception_ptr(
        RunWriteError(error.getErrorCode(), "cannot write the traces of run " + run_->run_name() +
                                                " to " + file_.string() + ": " + error.what() +
                                                "; " + advice(error.getErrorCode()) +
                                                ". What was written stays, as an incomplete run"));
  } catch (...) {
    return cause;
  }
}

/// Keeps the verdict, and what changed, and empties the write-ahead log. The run is whole without
/// either, so neither waits long for others.
void RunWriter::Target::finish() {
  wait_.set_patience(kLastPatience);
  try {
    const int64_t id = run_->run_id();
    const auto threads = static_cast<int>(std::thread::hardware_concurrency());
    if (judge_beside_) {
      forget_changed();
      judge_beside_->finish(threads, kJudgeRows);
      judge_beside_.reset();
    } else if (run_->rows() <= kJudgeRows) {
      judge_run(*db_, id, threads);
    }
    keep_diffs(*db_, {&id, 1});
    make_durable(*db_);
  } catch (const SQLite::Exception&) {
  }
}

RunWriter::RunWriter(const std::filesystem::path& database, const RunRecord& run,
                     std::optional<milliseconds> patience)
    : RunWriter(std::make_unique<Target>(database, run,
                                         patience.value_or(LockWait::usual().patience()))) {}

// The thread is started last: until then the target is the caller's.
RunWriter::RunWriter(std::unique_ptr<Target>&& target)
    : run_name_(target->run().run_name()), tolerances_(target->run().tolerances()) {
  start(std::move(target));
}

}  // namespace greta
