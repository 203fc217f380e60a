#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cli/commits/bisect_log.h"
#include "cli/commits/bisection.h"
#include "cli/commits/commit_command.h"
#include "cli/commits/recorded_answers.h"
#include "cli/commits/repository.h"
#include "cli/commits/search_question.h"

namespace greta {

/// What is said of a commit, once.
struct ProbedCommit {
  std::string commit, subject;
  std::string word;  ///< good, bad, skip
  std::string text;  ///< verdict, or why it is skipped
  std::string run;
  bool asked = false;          ///< the command ran
  std::optional<size_t> left;  ///< candidates after it
};

/// Where a search ends, or waits.
struct Conclusion {
  enum class Kind { kFound, kNext, kOnlySkipped, kNothing };
  Kind kind;
  std::string commit;                 ///< found, or to be run next
  std::string text;                   ///< why it is to be run, or there is nothing
  std::vector<std::string> possible;  ///< the commits that it may be
};

/// What the log of a repository has of one commit.
struct CommitFacts {
  std::string subject, committed_at, authored_at, parents;
};

/// The search for the commit that broke something, changed what is computed, or mended it. Two ends
/// of different verdicts are told apart by it, ends of the same one by whether commits compute what
/// the good end does. Recorded runs answer first, then the command, in a work tree of its own.
class Search {
 public:
  /// `say` is told what goes on, in lines for people. Throws UsageError for what cannot be
  /// searched.
  Search(SearchRequest request, std::function<void(const std::string&)> say);
  ~Search();
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  /// Throws UsageError, or std::runtime_error when the command cannot be run; Stopped.
  Conclusion conclude();

  const BisectQuestion& question() const { return question_; }
  bool by_values() const { return by_values_; }
  const std::vector<ProbedCommit>& probes() const { return probes_; }
  const std::string& log_file() const { return log_.file(); }
  const CommitFacts& facts(const std::string& commit);
  /// What was said of a commit; nullptr: nothing was.
  const CommitVerdict* answer(const std::string& commit) const;
  /// Where it shows that the commit is bad or, of a fix, that the bad end is.
  const FailPlace& place(const std::string& commit) const;
  /// A parent of it that is as the end before it; "" when none was asked.
  std::string last_before(const std::string& commit);

 private:
  using State = CommitVerdict::State;
  struct Book;

  void begin_with_a_run();
  void take_skips();
  RecordedAnswers& answers();
  CommitVerdict end_verdict(const std::string& commit);
  std::optional<Conclusion> judge_ends();
  std::optional<Conclusion> compare_ends();
  std::optional<Conclusion> judge_merge_bases();
  Conclusion halve();
  void say_contradictions(std::span<const GitCommit> commits, const Bisection& bisection);
  std::optional<Conclusion> at_the_cut(const Conclusion& conclusion) const;

  /// Whether it is on the side of the end that came later.
  bool is_after(State state) const { return (state == State::kBad) != question_.fix; }

  std::optional<CommitVerdict> known(const std::string& commit);
  std::optional<CommitVerdict> run_command(const std::string& commit);
  [[noreturn]] void refuse_runs(const std::string& commit, int64_t before, const ProgramEnd& end);
  void note(const std::string& commit, const CommitVerdict& verdict, bool asked,
            std::optional<size_t> left = std::nullopt);
  void note_skip(const std::string& commit, const std::string& why, bool asked);
  void show(const ProbedCommit& probe);
  std::string named(const std::string& commit);

  SearchRequest request_;
  std::function<void(const std::string&)> say_;
  BisectLog log_;
  Repository repository_;
  BisectQuestion question_;
  Gate gate_;
  CommitCommand command_;
  std::unique_ptr<Book> book_;  ///< closed while the command runs
  bool by_values_ = false;
  CommitVerdict good_, bad_;  ///< of the ends
  std::set<std::string> skipped_;
  std::map<std::string, CommitVerdict> answered_;
  std::vector<ProbedCommit> probes_;
  std::map<std::string, CommitFacts> facts_;
};

}  // namespace greta
