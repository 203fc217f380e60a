#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/commits/repository.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"
#include "cli/warehouse/verdict.h"

namespace greta {

/// Runs by the commit that they ran, without those that a fault was injected into. A run belongs to
/// a commit that its commit_sha names or begins with seven digits or more, if no other does.
class CommitRuns {
 public:
  /// `lineage`: "" all. Borrows the repository.
  CommitRuns(SQLite::Database& db, const Repository& repository, const std::string& lineage);

  /// Runs of a commit, in order of time.
  std::vector<Run> of(const std::string& commit);

 private:
  struct OneRun {
    std::string digits;
    Run run;
  };
  const Repository& repository_;
  std::vector<OneRun> runs_;  ///< by digits
  std::map<std::string, std::string> commit_of_digits_;
};

/// The lineages that have runs, with no fault injected, of both commits, else of one, else at all.
std::vector<std::string> likely_lineages(SQLite::Database& db, const std::string& good,
                                         const std::string& bad);

/// The answer of a commit's runs.
struct CommitVerdict {
  enum class State {
    kNoRun,
    kUndecided,  ///< its last run is INCOMPLETE, NO_EVIDENCE or INCOMPARABLE
    kDisputed,   ///< two of its runs say different things
    kGood,
    kBad
  };
  State state = State::kNoRun;
  int64_t run_id = 0;  ///< the last run that says so
  std::string run;     ///< its name
  std::string text;    ///< "PASS", "FAIL ATTN_OUT_DRIFT at layer 3, ...", "differs from ... at ..."
  FailPlace place;     ///< of what is bad: where it first shows

  bool decided() const { return state == State::kGood || state == State::kBad; }
};

/// Runs of one lineage as answers about the commits that they ran.
class RecordedAnswers {
 public:
  /// Opens the database for reading. Borrows the repository.
  RecordedAnswers(const std::string& database, const Repository& repository,
                  const std::string& lineage, Gate gate);

  /// Commits are good when they compute what this run does; without it, when they pass.
  void compare_with(const Run& run) { reference_ = run; }

  CommitVerdict of(const std::string& commit);

 private:
  CommitVerdict verdict_of(const Run& run);
  CommitVerdict difference_of(const Run& run, CommitVerdict own);
  bool is_dirty(const Run& run);  ///< its engine was built of more than its commit

  SQLite::Database db_;
  QueryPool statements_;
  Gate gate_;
  CommitRuns runs_;
  std::optional<Run> reference_;
};

}  // namespace greta
