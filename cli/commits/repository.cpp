#include "cli/commits/repository.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "common/exit_status.h"
#include "common/near_words.h"
#include "common/shell_word.h"

namespace greta {
namespace {

/// Variables by which git looks elsewhere than in the folder that it is given; hooks and rebases
/// set them.
constexpr const char* kElsewhere[] = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE",
                                      "GIT_COMMON_DIR", "GIT_PREFIX"};

/// The next field of git's output, which ends with a NUL.
std::string_view next_field(std::string_view& text) {
  const size_t end = text.find('\0');
  if (end == std::string_view::npos) throw std::runtime_error("git printed half a commit");
  const std::string_view field = text.substr(0, end);
  text.remove_prefix(end + 1);
  return field;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    lines.push_back(text.substr(begin, end - begin));
  }
  return lines;
}

/// The folder, or the next above it, that has a repository, where it is not of who asks: git then
/// refuses it. "" else.
std::string clone_of_another_user(const std::filesystem::path& folder) {
  for (std::filesystem::path at = folder;; at = at.parent_path()) {
    struct stat tree {
    }, repository{};
    if (stat((at / ".git").c_str(), &repository) == 0 && stat(at.c_str(), &tree) == 0) {
      return repository.st_uid == geteuid() && tree.st_uid == geteuid() ? "" : at.string();
    }
    if (at == at.parent_path()) return "";
  }
}

}  // namespace

const char* const kUnshallow = "this clone is shallow: `git fetch --unshallow` brings the rest";

std::string short_sha(const std::string& sha) { return sha.substr(0, 12); }

CommitLog::CommitLog(std::string text) : text_(std::move(text)) {
  for (std::string_view left = text_; !left.empty();) {
    GitCommit& commit = commits_.emplace_back();
    commit.sha = next_field(left);
    commit.parents = next_field(left);
    commit.committed_at = next_field(left);
    commit.authored_at = next_field(left);
    commit.subject = next_field(left);
    if (!left.empty() && left.front() == '\n') left.remove_prefix(1);
  }
}

Repository::Repository(std::string folder) : folder_(std::move(folder)) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder_, error)) {
    throw UsageError(folder_ + " is no folder: name a clone of the engine's repository");
  }
  folder_ = std::filesystem::canonical(folder_).string();
  try {
    git({"rev-parse", "--git-dir"});
  } catch (const std::system_error&) {
    throw;
  } catch (const std::runtime_error&) {
    if (const std::string clone = clone_of_another_user(folder_); !clone.empty()) {
      throw UsageError(
          "git does not read " + clone + ", which belongs to another user",
          {"  to trust it: git config --global --add safe.directory " + shell_word(clone)});
    }
    throw UsageError("git finds no repository in " + folder_ +
                     ": name a clone of the engine's repository");
  }
}

Program Repository::program(std::vector<std::string> words) const {
  // nothing that the repository is set up to run
  Program program{.command = {"git", "-C", folder_, "-c", "core.hooksPath=/dev/null", "-c",
                              "core.fsmonitor=false"}};
  program.command.insert(program.command.end(), std::make_move_iterator(words.begin()),
                         std::make_move_iterator(words.end()));
  for (const char* name : kElsewhere) program.variables.emplace_back(name, std::nullopt);
  return program;
}

std::string Repository::git(std::vector<std::string> words) const {
  return output_of(program(std::move(words)));
}

std::string Repository::commit_of_digits(const std::string& digits) const {
  try {
    const std::string sha =
        git({"rev-parse", "--verify", "--quiet", "--end-of-options", digits + "^{commit}"});
    return sha.substr(0, sha.find('\n'));
  } catch (const std::system_error&) {
    throw;
  } catch (const std::runtime_error&) {
    return "";
  }
}

std::string Repository::commit(const std::string& revision) const {
  if (std::string sha = commit_of_digits(revision); !sha.empty()) return sha;
  if (is_shallow()) {
    throw UsageError("git in " + folder_ + " has no commit " + revision + ", and " + kUnshallow);
  }
  throw unknown_name(
      "commit", revision,
      lines_of(git({"for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/tags"})),
      "git in " + folder_);
}

std::vector<std::string> Repository::merge_bases(const std::string& a, const std::string& b) const {
  try {
    return lines_of(git({"merge-base", "--all", a, b}));
  } catch (const std::system_error&) {
    throw;
  } catch (const std::runtime_error&) {  // status 1: there is none
    return {};
  }
}

bool Repository::is_shallow() const {
  return git({"rev-parse", "--is-shallow-repository"}) == "true\n";
}

std::set<std::string> Repository::cut() const {
  if (!is_shallow()) return {};
  std::string file = git({"rev-parse", "--git-path", "shallow"});
  file.pop_back();
  std::ifstream in(std::filesystem::path(folder_) / file);
  std::set<std::string> all;
  for (std::string sha; std::getline(in, sha);) all.insert(sha);
  if (all.empty()) throw std::runtime_error("cannot read " + file + " of " + folder_);
  return all;
}

CommitLog Repository::log(const std::vector<std::string>& which) const {
  std::vector<std::string> words{"-c",         "log.showSignature=false",
                                 "-c",         "i18n.logOutputEncoding=UTF-8",
                                 "log",        "--topo-order",
                                 "--reverse",  "--no-color",
                                 "--no-notes", "--format=%H%x00%P%x00%cI%x00%aI%x00%s%x00"};
  words.insert(words.end(), which.begin(), which.end());
  words.emplace_back("--");
  return CommitLog(git(std::move(words)));
}

}  // namespace greta
