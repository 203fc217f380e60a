#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/commits/repository.h"
#include "cli/warehouse/sql_query.h"
#include "cli/warehouse/verdict.h"

namespace greta {

/// What the runs of a commit say of it.
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

/// Runs of one lineage, without those that a fault was injected into, as answers of the commits
/// that they ran. A run belongs to a commit that its commit_sha names or begins, if no other does.
class RecordedAnswers {
 public:
  /// `values_of`: a run that commits are held against, which are good when they compute the same;
  /// without one they are good when they pass. Borrows both.
  RecordedAnswers(QueryPool& statements, const Repository& repository, std::string lineage,
                  Gate gate);

  void compare_with(int64_t run_id, std::string run);

  /// Whether there may be runs of it, without a look at them.
  bool has_runs(std::string_view commit) const;
  CommitVerdict of(const std::string& commit);

 private:
  struct RecordedRun {
    std::string digits, name;
    int64_t id;
  };
  bool is_of(const RecordedRun& run, const std::string& commit);
  CommitVerdict verdict_of(const RecordedRun& run);
  bool is_dirty(const RecordedRun& run);  ///< its engine was built of more than its commit
  CommitVerdict difference_of(const RecordedRun& run, CommitVerdict own);

  QueryPool& statements_;
  const Repository& repository_;
  Gate gate_;
  std::vector<RecordedRun> runs_;  ///< by digits, those of one commit in order of time
  std::map<std::string, std::string> commit_of_digits_;
  std::optional<int64_t> reference_;
  std::string reference_name_;
};

/// The lineages that have runs, with no fault injected, of these commits: how many of the commits.
std::map<std::string, int> lineages_of(SQLite::Database& db,
                                       const std::vector<std::string>& commits);

}  // namespace greta
