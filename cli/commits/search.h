#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commits/recorded_answers.h"
#include "cli/commits/repository.h"
#include "cli/warehouse/verdict.h"

namespace greta {

/// A question to the history of a repository.
struct SearchRequest {
  std::string database, repository = ".";
  std::string good, bad;  ///< revisions
  std::string lineage;    ///< "": the only one that has runs of both ends, else of one, else at all
  std::string command;    ///< line of sh that probes a commit; "": the next one is named
  std::string log;        ///< file; "": none
  std::vector<std::string> skip;
  Gate gate = Gate::kVerdict;
  bool first_parent = false;
  bool fix = false;  ///< the good end comes after the bad one: what fixed it is looked for
};

/// Start of a log; the options that go on from it follow.
inline constexpr std::string_view kLogStart = "# greta-db bisect ";

/// One commit that was answered or skipped.
struct ProbedCommit {
  GitCommit commit;
  std::string word;  ///< good, bad, skip
  std::string text;  ///< verdict, or why it is skipped
  std::string run;
  bool asked = false;               ///< the command ran
  std::optional<size_t> left = {};  ///< candidates after it
};

/// The end of a search, or the point where it waits.
struct Conclusion {
  enum class Kind { kFound, kNext, kOnlySkipped, kNothing };
  Kind kind = Kind::kNothing;
  std::string text;                ///< why a commit is to be run next, or there is nothing
  std::vector<GitCommit> commits;  ///< found, or next; those that it may be
  CommitVerdict verdict;           ///< of what is found
  bool by_values = false;          ///< else by the verdict
  std::vector<ProbedCommit> probes;
  SearchRequest question;  ///< with full names
};

/// Searches for the commit that broke something, changed what is computed, or fixed it: by git
/// bisect, in a work tree of its own. Recorded runs answer first, then the command. Two ends of
/// different verdicts are told apart by it, ends of the same one by whether commits compute what
/// the good end does. The log is git's, behind a line that says what is searched for. `say` gets
/// what goes on, in lines for people. Throws UsageError for what cannot be searched,
/// std::runtime_error when the command or git cannot be run, Stopped.
Conclusion search_commits(SearchRequest request, std::function<void(const std::string&)> say);

}  // namespace greta
