#include "engine/record/run_writer.h"

#include <sqlite3.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "common/utc_time.h"
#include "db/database.h"
#include "db/judge.h"
#include "db/transaction.h"
#include "engine/record/run_store.h"

namespace greta {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLastPatience{500};  // for what can be left undone

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

  const std::filesystem::path file_;
  LockWait wait_;
  std::optional<SQLite::Database> db_;
  std::optional<RunStore> run_;
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
    forget_verdict(*db_, run_->run_id());
    for (const RunItem& item : items) store(item);
    run_->write_rows();
  });
}

void RunWriter::Target::store(const RunItem& item) {
  if (const auto* rows = std::get_if<OfPrompt<std::vector<TraceRecord>>>(&item)) {
    return run_->take_rows(rows->prompt, rows->what);
  }
  run_->write_rows();
  if (const auto* prompt = std::get_if<PromptRecord>(&item)) run_->add_prompt(*prompt);
  if (const auto* plan = std::get_if<OfPrompt<std::vector<PlannedRow>>>(&item)) {
    run_->add_plan(plan->prompt, plan->what);
  }
  if (const auto* readout = std::get_if<OfPrompt<ReadoutRecord>>(&item)) {
    run_->add_readout(readout->prompt, readout->what);
  }
  if (const auto* a = std::get_if<RunAttribute>(&item)) run_->add_attribute(a->name, a->value);
  if (const auto* end = std::get_if<RunEnd>(&item)) run_->finish(end->complete, utc_now());
}

/// Says that the run failed, in the file if it still takes that and to the next call.
std::exception_ptr RunWriter::Target::fail(std::exception_ptr cause) {
  wait_.set_patience(kLastPatience);
  try {
    in_transaction(*db_, [this] {
      forget_verdict(*db_, run_->run_id());
      run_->finish(false, utc_now());
    });
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
    judge(*db_, {&id, 1});
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
