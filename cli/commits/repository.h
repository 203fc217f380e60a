#pragma once
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "common/child_process.h"
#include "common/temporary_folder.h"

namespace greta {

/// A commit, as git's log tells it.
struct GitCommit {
  std::string sha;
  std::string parents;       ///< shas, separated by blanks
  std::string committed_at;  ///< ISO 8601, with the committer's time zone
  std::string authored_at;   ///< the same of the author
  std::string subject;       ///< UTF-8, or what the commit has
};

/// Advice for a clone that has not all commits.
extern const char* const kUnshallow;

/// "1a2b3c4d5e6f": as much of a commit's name as people are shown.
std::string short_sha(const std::string& sha);

/// A git repository, asked by git, which is given words and no command line.
class Repository {
 public:
  /// `folder`: a clone, bare or not, or a folder in one. Throws UsageError when it is no folder,
  /// there is no git, or git reads no repository there, which git explains.
  explicit Repository(std::string folder);

  const std::string& folder() const { return folder_; }

  /// git with these words, run in this repository whatever the environment says of another.
  Program program(std::vector<std::string> words) const;
  /// The output of git for these words. Throws as output_of does.
  std::string git(std::vector<std::string> words) const;
  /// The same, line by line.
  std::vector<std::string> lines(std::vector<std::string> words) const;

  /// The full name of the commit that a revision means. Throws UsageError, with near names of
  /// branches and tags, when it means none.
  std::string commit(const std::string& revision) const;
  /// The same for a commit's first digits; "" when they mean none, or several.
  std::string commit_of_digits(const std::string& digits) const;

  /// Last commits that both histories have; empty when they have nothing in common.
  std::vector<std::string> merge_bases(const std::string& a, const std::string& b) const;

  /// Commits of a clone of less depth whose parents it left out; empty where it has all.
  std::set<std::string> cut() const;

  /// Calls `each` with commits, parents before children. `which`: words that git's log takes behind
  /// its format, as "--all" or commits; no user's text.
  void log(const std::vector<std::string>& which,
           const std::function<void(const GitCommit&)>& each) const;

 private:
  std::string folder_;
};

/// A `git bisect` in a work tree of its own, which lies in a temporary folder and is removed with
/// what was put into it. The user's files, index, HEAD, refs and own bisect are not touched, and no
/// hook runs. Throws as Repository::git does.
class BisectTree {
 public:
  /// Begins at `commit`. Removes first what killed processes have left in this repository. `fix`:
  /// git calls the old state "broken" and the new one "fixed", not "good" and "bad".
  BisectTree(const Repository& repository, const std::string& commit, bool first_parent, bool fix);
  ~BisectTree();
  BisectTree(const BisectTree&) = delete;
  BisectTree& operator=(const BisectTree&) = delete;

  const std::string& path() const { return path_; }
  const std::string& old_term() const { return old_; }
  const std::string& new_term() const { return new_; }

  void start(const std::string& new_end, const std::string& old_end);
  void replay(const std::string& file);  ///< a log; in place of start()
  /// `term`: the old or the new one, or "skip".
  void tell(const std::string& term, const std::string& commit);

  bool asks() const;  ///< git asks for a commit
  /// True where a merge base is as the new end is: what turned lies before it.
  bool base_is_new() const { return status_ == kBaseIsNew; }
  /// Commits that may be the first of the new state, those that halve the rest best before others.
  std::vector<std::string> candidates() const;
  /// The commit that git asks for, or asked for last: a merge base first, else a candidate.
  std::string next() const;
  std::string log() const { return git({"bisect", "log"}); }

  /// Puts the files of a commit there, and nothing else.
  void check_out(const std::string& commit) const;

 private:
  std::string git(std::vector<std::string> words) const;
  void bisect(std::vector<std::string> words);

  const Repository& repository_;
  TemporaryFolder folder_;
  std::string path_, old_, new_;
  bool first_parent_;
  static constexpr int kOnlySkipped = 2, kBaseIsNew = 3;
  int status_ = 0;  // by which git bisect ended last
};

}  // namespace greta
