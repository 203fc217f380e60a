#pragma once
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/child_process.h"

namespace greta {

/// A commit, as git's log tells it. Borrows from its CommitLog.
struct GitCommit {
  std::string_view sha;
  std::string_view parents;       ///< shas, separated by blanks
  std::string_view committed_at;  ///< ISO 8601, with the committer's time zone
  std::string_view authored_at;   ///< the same of the author
  std::string_view subject;       ///< UTF-8, or what the commit has
};

/// Commits, parents before children.
class CommitLog {
 public:
  /// Throws std::runtime_error for half a commit.
  explicit CommitLog(std::string text);
  CommitLog(const CommitLog&) = delete;
  CommitLog& operator=(const CommitLog&) = delete;

  const std::vector<GitCommit>& commits() const { return commits_; }

 private:
  std::string text_;
  std::vector<GitCommit> commits_;
};

/// What is said of a clone that has not all commits.
extern const char* const kUnshallow;

/// "1a2b3c4d5e6f": as much of a commit's name as people are shown.
std::string short_sha(const std::string& sha);

/// A git repository that is only read: by git, which is given words and no command line.
class Repository {
 public:
  /// `folder`: a clone, or a folder in one. Throws UsageError when it is no folder, or git finds no
  /// repository there, or reads none of another user; std::system_error without git.
  explicit Repository(std::string folder);

  const std::string& folder() const { return folder_; }

  /// What git prints for these words. Throws as output_of does.
  std::string git(std::vector<std::string> words) const;

  /// The full name of the commit that a revision means. Throws UsageError, with near names of
  /// branches and tags, when it means none.
  std::string commit(const std::string& revision) const;
  /// The same of a commit's first digits; "" when they mean none, or several.
  std::string commit_of_digits(const std::string& digits) const;

  /// Where histories of both meet last; empty when they have nothing in common.
  std::vector<std::string> merge_bases(const std::string& a, const std::string& b) const;

  /// Whether commits are missing that a clone of less depth left out.
  bool is_shallow() const;
  /// Those of a clone of less depth whose parents it left out; empty where it has all.
  std::set<std::string> cut() const;

  /// Words that git's log takes behind its format: "--all", or commits. No user's text.
  CommitLog log(const std::vector<std::string>& which) const;

  /// git with these words, run in this repository whatever the environment says of another.
  Program program(std::vector<std::string> words) const;

 private:
  std::string folder_;
};

}  // namespace greta
