#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace greta {

/// Runs of up to this many trace rows are judged when they are written; larger ones when asked for.
inline constexpr int64_t kJudgeRows = 1'000'000;

/// Rows of the view unkept_tally of one run, value after value.
struct TallyRows {
  using Value = std::variant<std::monostate, int64_t, std::string>;
  int64_t run_id = 0;
  std::vector<Value> values;
};

/// The statement that works out a run's tally. It costs more to prepare than a small run to judge,
/// so it stays; there is one for runs that a report's table lists pairs of and one for others.
class TallyStatements {
 public:
  TallyStatements(SQLite::Database& db, std::string condition)
      : db_(db),
        condition_(std::move(condition)),
        report_(db, "SELECT 1 FROM report_pair WHERE run_id = ? LIMIT 1") {}
  /// With the run bound, as its first parameter.
  SQLite::Statement& of_run(int64_t run_id);

 private:
  SQLite::Database& db_;
  std::string condition_;
  SQLite::Statement report_;
  std::optional<SQLite::Statement> traced_, reported_;
};

/// Works out tallies, on any connection: one of these serves many. Throws SQLite::Exception.
class TallyReader {
 public:
  explicit TallyReader(SQLite::Database& db) : rows_(db, "") {}
  /// No rows when the tally is kept already.
  TallyRows read(int64_t run_id);

 private:
  TallyStatements rows_;
};

/// The same of a run's prompts, one at a time: what they have together is the run's.
class PromptTallyReader {
 public:
  explicit PromptTallyReader(SQLite::Database& db) : rows_(db, " AND prompt_id = ?") {}
  /// Prompt 0: what is of the run as a whole.
  TallyRows read(int64_t run_id, int64_t prompt_id);

 private:
  TallyStatements rows_;
};

/// Keeps tallies, and the verdicts that they amount to, so that they are read: the kept rows are
/// those of the views `tally` and `verdict_part`. All calls happen inside a transaction that the
/// caller owns. Throws SQLite::Exception.
class TallyKeeper {
 public:
  explicit TallyKeeper(SQLite::Database& db);
  /// No-op when the verdict is kept already and the tally has no rows.
  void keep(const TallyRows& tally);

 private:
  SQLite::Statement tally_, verdict_;
};

/// Judges one run: what TallyReader says of it is kept.
void keep_tally(SQLite::Database& db, int64_t run_id);

/// Deletes what is kept of a run: for whoever changes what its verdict is made of.
void forget_tally(SQLite::Database& db, int64_t run_id);

/// Ids of runs whose tally is not kept, that have ended or never said that they began, with at most
/// max_rows trace rows.
std::vector<int64_t> runs_without_tally(SQLite::Database& db, int64_t max_rows = kJudgeRows);

}  // namespace greta
