// A real git repository of a made history, by git fast-import.
#pragma once
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/child_process.h"

namespace greta {

/// A commit whose tree holds one file, `state`. Parents are places in the history, the first one
/// first; a root has none.
struct MadeCommit {
  std::string state;
  std::vector<size_t> parents;
  std::string subject;
};

inline bool have_git() { return std::system("git --version >/dev/null 2>&1") == 0; }

/// For a test that makes a repository.
#define GRETA_NEEDS_GIT() \
  if (!have_git()) GTEST_SKIP() << "git is not installed"

class GitHistory {
 public:
  /// In a new folder, on branch main, which is checked out.
  GitHistory(const std::filesystem::path& folder, const std::vector<MadeCommit>& commits)
      : folder_(folder.string()) {
    output_of({.command = {"git", "init", "--quiet", "--initial-branch=main", folder_}});
    const std::string stream = folder_ + "/.git/stream", marks = folder_ + "/.git/marks";
    std::ofstream(stream, std::ios::binary) << stream_of(commits);
    shas_.resize(commits.size());
    if (std::system(("git -C '" + folder_ + "' fast-import --quiet --export-marks='" + marks +
                     "' <'" + stream + "'")
                        .c_str()) != 0) {
      throw std::runtime_error("git fast-import failed");
    }
    std::ifstream in(marks);
    for (std::string mark, sha; in >> mark >> sha;) shas_.at(std::stoul(mark.substr(1)) - 1) = sha;
    git({"reset", "--quiet", "--hard"});
  }

  const std::string& folder() const { return folder_; }
  const std::string& sha(size_t commit) const { return shas_.at(commit); }
  size_t size() const { return shas_.size(); }

  std::string git(std::vector<std::string> words) const {
    words.insert(words.begin(), {"git", "-C", folder_});
    return output_of({.command = std::move(words)});
  }

 private:
  static std::string data(const std::string& text) {
    return "data " + std::to_string(text.size()) + "\n" + text + "\n";
  }

  static std::string stream_of(const std::vector<MadeCommit>& commits) {
    std::string text;
    for (size_t i = 0; i < commits.size(); ++i) {
      const MadeCommit& commit = commits[i];
      const std::string who = " Ada <ada@example.org> " + std::to_string(1'767'225'600 + 3600 * i);
      text += "commit refs/heads/main\nmark :" + std::to_string(i + 1) + "\nauthor" + who +
              " +0000\ncommitter" + who + " +0000\n" +
              data(commit.subject.empty() ? "commit " + std::to_string(i) : commit.subject);
      for (size_t k = 0; k < commit.parents.size(); ++k) {
        text += (k == 0 ? "from :" : "merge :") + std::to_string(commit.parents[k] + 1) + "\n";
      }
      text += "M 100644 inline state\n" + data(commit.state + "\n") + "\n";
    }
    return text;
  }

  std::string folder_;
  std::vector<std::string> shas_;
};

}  // namespace greta
